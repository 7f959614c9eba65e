import { Button, Group, Select, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Section } from "../../components/Section";
import { sanitize } from "../../lib/sanitize";
import { DEFAULT_RANGE, type Range } from "../search/range";
import { TimeRange } from "../search/TimeRange";
import { schemaQuery } from "../source/queries";
import { CollateralAccessView } from "./CollateralAccessView";
import { CountResult } from "./CountResult";
import { type CollateralRequest, collateralAccessQuery } from "./impactQueries";

export const COUNT_SECONDS = 10;
export const COLLATERAL_ERROR_TITLE = "The collateral access could not be counted";
export const COLLATERAL_STOPPED_TEXT = "Stopped: the collateral access is not known.";

/** Collateral access of a stored role. It is counted only on request, because it is expensive and audited. */
export function CollateralAccess({ role }: { role: string }) {
  const [by, setBy] = useState<string | null>(null);
  const [range, setRange] = useState<Range>(DEFAULT_RANGE);
  const [submitted, setSubmitted] = useState<CollateralRequest | null>(null);
  const request: CollateralRequest = { role, draft: null, by, range, seconds: COUNT_SECONDS };
  const options = collateralAccessQuery(submitted ?? request);
  const query = useQuery({ ...options, enabled: submitted !== null });
  const count = () => {
    if (submitted !== null && JSON.stringify(submitted) === JSON.stringify(request)) {
      void query.refetch();
    } else {
      setSubmitted(request);
    }
  };
  return (
    <Section
      title="Collateral access"
      description="Traces are shown whole, so that members also see values of spans that no stored policy matches."
    >
      <Stack gap="md">
        <Group gap="sm" align="flex-end">
          <FieldSelect field={by} onChange={setBy} />
          <TimeRange range={range} window={undefined} onChange={setRange} />
          <Button variant="light" loading={query.isFetching} onClick={count}>
            Count
          </Button>
        </Group>
        {submitted !== null && (
          <CountResult
            query={query}
            queryKey={options.queryKey}
            label="Counting"
            seconds={COUNT_SECONDS}
            errorTitle={COLLATERAL_ERROR_TITLE}
            stoppedText={COLLATERAL_STOPPED_TEXT}
          >
            {(result) => <CollateralAccessView result={result} />}
          </CountResult>
        )}
      </Stack>
    </Section>
  );
}

/** The field or column whose values are counted: text fields, and the displayed columns. */
export function FieldSelect({
  field,
  onChange,
}: {
  field: string | null;
  onChange: (field: string | null) => void;
}) {
  const schema = useQuery(schemaQuery);
  const { binding, fields = [] } = schema.data?.model ?? {};
  const displayedColumns = [binding?.display?.service, binding?.display?.name].filter(
    (column) => column != null,
  );
  const textFields = fields.filter(({ type }) => type === "string" || type === "string_array");
  const refs = [...new Set([...displayedColumns, ...textFields.map(({ ref }) => ref)])];
  return (
    <Select
      label="Field"
      w={{ base: "100%", xs: 260 }}
      searchable
      allowDeselect={false}
      limit={200}
      nothingFoundMessage="No matching field"
      data={refs.map((value) => ({ value, label: sanitize(value) }))}
      value={field ?? displayedColumns[0] ?? null}
      onChange={onChange}
    />
  );
}
