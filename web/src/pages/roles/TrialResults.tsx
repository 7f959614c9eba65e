import { Group, Loader, Stack, Table, Text, UnstyledButton } from "@mantine/core";
import { Fragment, useId, useState } from "react";
import type { Api } from "../../api/client";
import { Chevron } from "../../components/Chevron";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink } from "../../components/links";
import { PagedList } from "../../components/PagedList";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { TableHead } from "../../components/TableHead";
import { HighlightedExpression, Outcome, OutcomeDetails } from "../../editor/Outcome";
import { NO_NAME } from "../../lib/names";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import classes from "./roles.module.css";
import {
  outcomeOf,
  type PolicyTrialResult,
  spanOffsets,
  type TraceOutcome,
  type TrialSpan,
  type TrialTrace,
} from "./trial";

/** Outcomes of the policies for each span, by trace. */
export function TrialResults({
  traces,
  policies,
  pending,
  username,
}: {
  traces: readonly TrialTrace[];
  policies: readonly PolicyTrialResult[];
  pending: boolean;
  username: string;
}) {
  const offsets = spanOffsets(traces);
  const outcomes = traces.map((trace, index) => outcomeOf(trace, offsets[index] ?? 0, policies));
  const visibleCount = outcomes.filter((outcome) => outcome.visible).length;
  const failedPolicies = policies.filter(({ error }) => error !== null);
  const spanCount = traces.reduce((sum, trace) => sum + trace.spans.length, 0);
  if (policies.length === 0) {
    return <Text size="sm">Enter an expression above to test it.</Text>;
  }
  const hasResults = policies.some(({ results }) => results !== null);
  return (
    <Stack gap="sm" aria-busy={pending}>
      <Group gap="xs" role="status">
        {pending && <Loader size={14} aria-hidden />}
        <Text size="sm" fw={600}>
          {hasResults
            ? `${visibleCount} of ${countOf(traces.length, "trace")} would be visible to ${sanitize(username)}`
            : pending
              ? "Testing…"
              : "No policy could be tested"}
        </Text>
        <Secondary size="xs">{countOf(spanCount, "span")} evaluated</Secondary>
      </Group>
      {failedPolicies.map((policy) => (
        <ErrorNotice
          key={policy.key}
          error={policy.error}
          title={`“${sanitize(policy.title === "" ? policy.expression : policy.title)}” could not be tested`}
        />
      ))}
      {hasResults &&
        traces.map((trace, index) => (
          <TraceResult
            key={trace.id}
            trace={trace}
            start={offsets[index] ?? 0}
            outcome={outcomes[index] ?? { visible: false, grantedBy: null, outcomes: [] }}
            policies={policies}
            initiallyExpanded={traces.length === 1}
          />
        ))}
    </Stack>
  );
}

const spanName = (span: TrialSpan) => (span.name.trim() === "" ? `${NO_NAME} ${span.id}` : span.name);

function TraceResult({
  trace,
  start,
  outcome,
  policies,
  initiallyExpanded,
}: {
  trace: TrialTrace;
  start: number;
  outcome: TraceOutcome;
  policies: readonly PolicyTrialResult[];
  initiallyExpanded: boolean;
}) {
  const [isExpanded, setIsExpanded] = useState(initiallyExpanded);
  const id = useId();
  return (
    <section className={classes.trace} aria-label={`Trace ${sanitize(trace.id)}`}>
      <UnstyledButton
        className={classes.traceHead}
        onClick={() => setIsExpanded(!isExpanded)}
        aria-expanded={isExpanded}
        aria-controls={id}
      >
        <Chevron opened={isExpanded} size={16} />
        <Outcome outcome={outcome.visible ? "true" : "false"}>
          {outcome.visible
            ? "Visible"
            : trace.omittedSpans > 0
              ? "Not visible by these spans"
              : "Not visible"}
        </Outcome>
        {outcome.grantedBy !== null && (
          <Text span size="sm">
            by span <SanitizedText text={spanName(outcome.grantedBy.span)} maxLength={80} />, “
            <SanitizedText text={outcome.grantedBy.policy.title} maxLength={80} />”
          </Text>
        )}
        <Text span size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: "anywhere" }}>
          <SanitizedText text={trace.id} maxLength={64} />
        </Text>
        <Text span size="xs" c="dimmed">
          {countOf(trace.spans.length, "span")}
          {trace.omittedSpans > 0 &&
            `, the first of ${(trace.spans.length + trace.omittedSpans).toLocaleString("en")}`}
        </Text>
      </UnstyledButton>
      {isExpanded && (
        <div id={id}>
          <SpanTable trace={trace} start={start} outcomes={outcome.outcomes} policies={policies} />
        </div>
      )}
    </section>
  );
}

const PAGE_SIZE = 50;

function SpanTable({
  trace,
  start,
  outcomes,
  policies,
}: {
  trace: TrialTrace;
  start: number;
  outcomes: readonly Api["PolicyOutcome"][];
  policies: readonly PolicyTrialResult[];
}) {
  const [openIndex, setOpenIndex] = useState<number | null>(null);
  return (
    <>
      <PagedList items={[...trace.spans.entries()]} pageSize={PAGE_SIZE} itemName="spans">
        {(spans) => (
          <Table.ScrollContainer minWidth={440} type="native">
            <Table verticalSpacing={4} aria-label={`Spans of trace ${sanitize(trace.id)}`}>
              <TableHead columns={["Span", "Service", "Result"]} />
              <Table.Tbody>
                {spans.map(([index, span]) => {
                  const outcome = outcomes[index] ?? "false";
                  const isOpen = openIndex === index;
                  return (
                    <Fragment key={span.id}>
                      <Table.Tr>
                        <Table.Td>
                          <UnstyledButton
                            aria-expanded={isOpen}
                            aria-label={`${sanitize(spanName(span))}: decisive parts`}
                            onClick={() => setOpenIndex(isOpen ? null : index)}
                          >
                            <Group gap={6} wrap="nowrap">
                              <Chevron opened={isOpen} />
                              <Text span size="sm" style={{ overflowWrap: "anywhere" }}>
                                <SanitizedText text={spanName(span)} maxLength={120} />
                              </Text>
                            </Group>
                          </UnstyledButton>
                        </Table.Td>
                        <Table.Td>
                          <SanitizedText text={span.service} maxLength={80} />
                        </Table.Td>
                        <Table.Td>
                          <Outcome outcome={outcome}>{outcome}</Outcome>
                        </Table.Td>
                      </Table.Tr>
                      {isOpen && (
                        <Table.Tr>
                          <Table.Td colSpan={3} bg="var(--mantine-color-body)">
                            <PolicyDecisions policies={policies} index={start + index} />
                          </Table.Td>
                        </Table.Tr>
                      )}
                    </Fragment>
                  );
                })}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </PagedList>
      <Group justify="flex-end" p="xs">
        <ButtonLink to="/trace/$traceId" params={{ traceId: trace.id }} size="xs" variant="subtle">
          Open the trace
        </ButtonLink>
      </Group>
    </>
  );
}

/** Each policy with the parts that decided its outcome for a span. */
function PolicyDecisions({ policies, index }: { policies: readonly PolicyTrialResult[]; index: number }) {
  return (
    <Stack gap="sm" py={4}>
      {policies.map((policy) => {
        const result = policy.results?.[index];
        return (
          result !== undefined && (
            <div key={policy.key}>
              <Group gap="xs" mb={4}>
                <Outcome outcome={result.outcome}>{result.outcome}</Outcome>
                <Text size="sm" fw={500}>
                  <SanitizedText
                    text={policy.title === "" ? "Policy without a title" : policy.title}
                    maxLength={120}
                  />
                </Text>
              </Group>
              <HighlightedExpression expression={policy.expression} decisions={result.decided_by} />
              <OutcomeDetails outcome={result.outcome} detail={result.detail} decisions={result.decided_by} />
            </div>
          )
        );
      })}
    </Stack>
  );
}
