import { Button, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import type { Api } from "../../api/client";
import { SanitizedText } from "../../components/SanitizedText";
import { ScrollableTable } from "../../components/ScrollableTable";
import { Secondary } from "../../components/Secondary";
import { StateBadge } from "../../components/StateBadge";
import { TableHead } from "../../components/TableHead";
import { countOf, formatShare } from "../../lib/numbers";
import { costText, ReliabilityNotice } from "./ImpactView";
import { splitCollateral, tracesText } from "./impact";

/** Number of values shown initially. */
const INITIAL_ROWS = 20;

/** Values that are visible only because traces are shown whole. */
export function CollateralAccessView({
  result,
  showCost = true,
}: {
  result: Api["CollateralAccess"];
  showCost?: boolean;
}) {
  const { values, sampled, traces, distinct, only_shared, hidden_values } = result;
  const [showAll, setShowAll] = useState(false);
  const { collateralOnly, onMatchingSpans } = splitCollateral(values);
  const rows = [...collateralOnly, ...onMatchingSpans];
  const shownRows = showAll ? rows : rows.slice(0, INITIAL_ROWS);
  if (traces === 0) {
    return (
      <Stack gap="xs">
        <Text size="sm">
          {sampled ? "In the sample, the" : "The"} policies grant access to no trace in this time range, so
          there is no collateral access.
        </Text>
        <ReliabilityNotice {...result} />
      </Stack>
    );
  }
  return (
    <Stack gap="xs">
      <Text size="sm">
        {only_shared === 0 ? (
          <>
            {sampled && "In the sample: "}No collateral access: each of the {countOf(distinct, "value")} of{" "}
            <FieldRef by={result.by} /> is on a span that matches a policy.
          </>
        ) : (
          <>
            {sampled && "In the sample, "}
            <b>
              {only_shared.toLocaleString("en")} of {countOf(distinct, "value")}
            </b>{" "}
            of <FieldRef by={result.by} /> {only_shared === 1 ? "is" : "are"} seen only because traces are
            shown whole: no span that matches a policy has {only_shared === 1 ? "it" : "them"}.
          </>
        )}
      </Text>
      <ReliabilityNotice {...result} />
      {rows.length > 0 && (
        <ScrollableTable minWidth={380} label="Values that become visible">
          <TableHead columns={["Value", "In accessible traces", "Visible"]} />
          <Table.Tbody>
            {shownRows.map((value) => (
              <Table.Tr key={value.value}>
                <Table.Th scope="row" fw={500} style={{ overflowWrap: "anywhere" }}>
                  {value.value === "" ? "(empty)" : <SanitizedText text={value.value} maxLength={160} />}
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
        </ScrollableTable>
      )}
      {rows.length > shownRows.length && (
        <Button
          size="compact-sm"
          variant="subtle"
          style={{ alignSelf: "start" }}
          onClick={() => setShowAll(true)}
        >
          Show all {rows.length.toLocaleString("en")}
        </Button>
      )}
      {hidden_values > 0 && (
        <Secondary size="sm">
          {hidden_values === distinct
            ? hidden_values === 1
              ? "This value is"
              : "All of these values are"
            : `${hidden_values.toLocaleString("en")} of these ${countOf(distinct, "value")} ${hidden_values === 1 ? "is" : "are"}`}{" "}
          only in traces that you may not see yourself, and {hidden_values === 1 ? "is" : "are"} therefore not
          listed.
        </Secondary>
      )}
      {showCost && <Secondary size="xs">Counting read {costText(result.cost)}.</Secondary>}
    </Stack>
  );
}

function FieldRef({ by }: { by: string }) {
  return (
    <Text span inherit ff="monospace" style={{ overflowWrap: "anywhere" }}>
      <SanitizedText text={by} maxLength={120} />
    </Text>
  );
}
