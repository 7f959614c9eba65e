import { Button, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import type { Api } from "../../api/client";
import { ScrolledTable } from "../../components/ScrolledTable";
import { StateBadge } from "../../components/StateBadge";
import { Visible } from "../../components/Visible";
import { formatShare } from "../source/numbers";
import { costText, Reliance } from "./ImpactView";
import { bySharing, tracesText } from "./impact";
import { countOf } from "./listing";

/** Number of values shown initially. */
const ROWS = 20;

/** Values that are visible only because traces are shown whole. */
export function OvershareView({ answer, cost = true }: { answer: Api["Overshare"]; cost?: boolean }) {
  const { values, sampled, traces, distinct, only_shared, hidden_values } = answer;
  const [all, setAll] = useState(false);
  const { only, also } = bySharing(values);
  const rows = [...only, ...also];
  const shown = all ? rows : rows.slice(0, ROWS);
  if (traces === 0) {
    return (
      <Stack gap="xs">
        <Text size="sm">
          {sampled ? "In the sample, the" : "The"} policies grant access to no trace in this time range, so
          there is no collateral access.
        </Text>
        <Reliance {...answer} />
      </Stack>
    );
  }
  return (
    <Stack gap="xs">
      <Text size="sm">
        {only_shared === 0 ? (
          <>
            {sampled && "In the sample: "}No collateral access: each of the{" "}
            {countOf(distinct, "value", "values")} of <By by={answer.by} /> is on a span that matches a
            policy.
          </>
        ) : (
          <>
            {sampled && "In the sample, "}
            <b>
              {only_shared.toLocaleString("en")} of {countOf(distinct, "value", "values")}
            </b>{" "}
            of <By by={answer.by} /> {only_shared === 1 ? "is" : "are"} seen only because traces are shown
            whole: no span that matches a policy has {only_shared === 1 ? "it" : "them"}.
          </>
        )}
      </Text>
      <Reliance {...answer} />
      {rows.length > 0 && (
        <ScrolledTable minWidth={380} label="Values that become visible">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">Value</Table.Th>
              <Table.Th scope="col">In accessible traces</Table.Th>
              <Table.Th scope="col">Visible</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((value) => (
              <Table.Tr key={value.value}>
                <Table.Th scope="row" fw={500} style={{ overflowWrap: "anywhere" }}>
                  {value.value === "" ? "(empty)" : <Visible text={value.value} most={160} />}
                </Table.Th>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  {tracesText(value.traces, sampled)} ({formatShare(value.traces, traces)})
                </Table.Td>
                <Table.Td>
                  {value.only_shared ? (
                    <StateBadge color="orange">only via whole traces</StateBadge>
                  ) : (
                    <StateBadge color="gray">
                      on matching spans in {tracesText(value.matching_traces, sampled)}
                    </StateBadge>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </ScrolledTable>
      )}
      {rows.length > shown.length && (
        <Button
          size="compact-sm"
          variant="subtle"
          style={{ alignSelf: "start" }}
          onClick={() => setAll(true)}
        >
          Show all {rows.length.toLocaleString("en")}
        </Button>
      )}
      {hidden_values > 0 && (
        <Text size="sm" c="var(--tw-quiet)">
          {countOf(hidden_values, "more value is", "more values are")} only in traces that you may not see
          yourself, and {hidden_values === 1 ? "is" : "are"} counted without being named.
        </Text>
      )}
      {cost && (
        <Text size="xs" c="var(--tw-quiet)">
          Counting read {costText(answer.cost)}.
        </Text>
      )}
    </Stack>
  );
}

function By({ by }: { by: string }) {
  return (
    <Text span inherit ff="monospace" style={{ overflowWrap: "anywhere" }}>
      <Visible text={by} most={120} />
    </Text>
  );
}
