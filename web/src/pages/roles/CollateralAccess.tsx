import { Button, Group, Select, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Section } from "../../components/Section";
import { visible } from "../../lib/visible";
import { DEFAULT_RANGE, type Range } from "../search/range";
import { TimeRange } from "../search/TimeRange";
import { schemaQuery } from "../source/queries";
import { Counting } from "./Counting";
import { type OvershareAsked, overshareQuery } from "./impactQueries";
import { OvershareView } from "./OvershareView";

export const SECONDS = 10;

/** Collateral access of a stored role. It is counted only on request, because it is expensive and audited. */
export function Overshare({ role }: { role: string }) {
  const [by, setBy] = useState<string | null>(null);
  const [range, setRange] = useState<Range>(DEFAULT_RANGE);
  const [asked, setAsked] = useState<OvershareAsked | null>(null);
  const wanted: OvershareAsked = { role, draft: null, by, range, seconds: SECONDS };
  const options = overshareQuery(asked ?? wanted);
  const { data, error, isFetching, refetch } = useQuery({ ...options, enabled: asked !== null });
  const count = () => {
    if (asked !== null && JSON.stringify(asked) === JSON.stringify(wanted)) {
      void refetch();
    } else {
      setAsked(wanted);
    }
  };
  return (
    <Section
      title="Collateral access"
      about="Traces are shown whole. Members see these values, although no span that matches a stored policy has them."
    >
      <Stack gap="md">
        <Group gap="sm" align="flex-end">
          <ByChoice by={by} onChange={setBy} />
          <TimeRange range={range} window={undefined} onChange={setRange} />
          <Button variant="light" loading={isFetching} onClick={count}>
            Count
          </Button>
        </Group>
        {isFetching ? (
          <Counting
            what="Counting"
            seconds={SECONDS}
            onStop={() => void queryClient.cancelQueries({ queryKey: options.queryKey })}
          />
        ) : error !== null ? (
          <ErrorNotice error={error} title="The collateral access could not be counted" />
        ) : (
          data !== undefined && <OvershareView answer={data} />
        )}
      </Stack>
    </Section>
  );
}

/** The field or column whose values are counted: text fields, and the displayed columns. */
export function ByChoice({ by, onChange }: { by: string | null; onChange: (by: string | null) => void }) {
  const schema = useQuery(schemaQuery);
  const { binding, fields = [] } = schema.data?.model ?? {};
  const shown = [binding?.display?.service, binding?.display?.name].filter((column) => column != null);
  const texts = fields.filter(({ type }) => type === "string" || type === "string_array");
  const refs = [...new Set([...shown, ...texts.map(({ ref }) => ref)])];
  return (
    <Select
      label="Field"
      w={{ base: "100%", xs: 260 }}
      searchable
      allowDeselect={false}
      limit={200}
      nothingFoundMessage="No matching field"
      data={refs.map((value) => ({ value, label: visible(value) }))}
      value={by ?? shown[0] ?? null}
      onChange={(value) => onChange(value)}
    />
  );
}
