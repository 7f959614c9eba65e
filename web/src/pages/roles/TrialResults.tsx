import { Group, Loader, Pagination, Stack, Table, Text, UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { Fragment, useId, useState } from "react";
import type { Api } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink } from "../../components/links";
import { Visible } from "../../components/Visible";
import { DecidedDetails, DecidedExpression, Outcome } from "../../editor/Decided";
import { NO_NAME } from "../../lib/names";
import { visible } from "../../lib/visible";
import { countOf } from "./listing";
import classes from "./roles.module.css";
import {
  outcomeOf,
  type PolicyTrial,
  startsOf,
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
  policies: readonly PolicyTrial[];
  pending: boolean;
  username: string;
}) {
  const starts = startsOf(traces);
  const outcomes = traces.map((trace, index) => outcomeOf(trace, starts[index] ?? 0, policies));
  const opened = outcomes.filter((outcome) => outcome.opened).length;
  const broken = policies.filter(({ error }) => error !== null);
  const spans = traces.reduce((sum, trace) => sum + trace.spans.length, 0);
  if (policies.length === 0) {
    return <Text size="sm">Enter an expression above to test it.</Text>;
  }
  const known = policies.some(({ results }) => results !== null);
  return (
    <Stack gap="sm" aria-busy={pending}>
      <Group gap="xs" role="status">
        {pending && <Loader size={14} aria-hidden />}
        <Text size="sm" fw={600}>
          {known
            ? `${opened} of ${countOf(traces.length, "trace", "traces")} would be visible to ${visible(username)}`
            : pending
              ? "Testing…"
              : "No policy could be tested"}
        </Text>
        <Text size="xs" c="var(--tw-quiet)">
          {countOf(spans, "span", "spans")} evaluated
        </Text>
      </Group>
      {broken.map((policy) => (
        <ErrorNotice
          key={policy.key}
          error={policy.error}
          title={`“${visible(policy.title === "" ? policy.expression : policy.title)}” could not be tested`}
        />
      ))}
      {known &&
        traces.map((trace, index) => (
          <TraceResult
            key={trace.id}
            trace={trace}
            start={starts[index] ?? 0}
            outcome={outcomes[index] ?? { opened: false, by: null, outcomes: [] }}
            policies={policies}
            initially={traces.length === 1}
          />
        ))}
    </Stack>
  );
}

const nameOf = (span: TrialSpan) => (span.name.trim() === "" ? `${NO_NAME} ${span.id}` : span.name);

function TraceResult({
  trace,
  start,
  outcome,
  policies,
  initially,
}: {
  trace: TrialTrace;
  start: number;
  outcome: TraceOutcome;
  policies: readonly PolicyTrial[];
  initially: boolean;
}) {
  const [shown, setShown] = useState(initially);
  const id = useId();
  return (
    <section className={classes.trace} aria-label={`Trace ${visible(trace.id)}`}>
      <UnstyledButton
        className={classes.traceHead}
        onClick={() => setShown(!shown)}
        aria-expanded={shown}
        aria-controls={id}
      >
        {shown ? <IconChevronDown size={16} aria-hidden /> : <IconChevronRight size={16} aria-hidden />}
        <Outcome outcome={outcome.opened ? "true" : "false"}>
          {outcome.opened ? "Visible" : trace.more > 0 ? "Not visible by these spans" : "Not visible"}
        </Outcome>
        {outcome.by !== null && (
          <Text span size="sm">
            by span <Visible text={nameOf(outcome.by.span)} most={80} />, “
            <Visible text={outcome.by.policy.title} most={80} />”
          </Text>
        )}
        <Text span size="xs" c="var(--tw-quiet)" ff="monospace" style={{ overflowWrap: "anywhere" }}>
          <Visible text={trace.id} most={64} />
        </Text>
        <Text span size="xs" c="var(--tw-quiet)">
          {countOf(trace.spans.length, "span", "spans")}
          {trace.more > 0 && `, the first of ${(trace.spans.length + trace.more).toLocaleString("en")}`}
        </Text>
      </UnstyledButton>
      {shown && (
        <div id={id}>
          <SpanTable trace={trace} start={start} outcomes={outcome.outcomes} policies={policies} />
        </div>
      )}
    </section>
  );
}

const ROWS = 50;

function SpanTable({
  trace,
  start,
  outcomes,
  policies,
}: {
  trace: TrialTrace;
  start: number;
  outcomes: readonly Api["PolicyOutcome"][];
  policies: readonly PolicyTrial[];
}) {
  const [page, setPage] = useState(1);
  const [opened, setOpened] = useState<number | null>(null);
  const first = (page - 1) * ROWS;
  const pages = Math.ceil(trace.spans.length / ROWS);
  return (
    <>
      <Table.ScrollContainer minWidth={440} type="native">
        <Table verticalSpacing={4} aria-label={`Spans of trace ${visible(trace.id)}`}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">Span</Table.Th>
              <Table.Th scope="col">Service</Table.Th>
              <Table.Th scope="col">Result</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {trace.spans.slice(first, first + ROWS).map((span, offset) => {
              const place = first + offset;
              const outcome = outcomes[place] ?? "false";
              const open = opened === place;
              return (
                <Fragment key={span.id}>
                  <Table.Tr>
                    <Table.Td>
                      <UnstyledButton
                        aria-expanded={open}
                        aria-label={`${visible(nameOf(span))}: decisive parts`}
                        onClick={() => setOpened(open ? null : place)}
                      >
                        <Group gap={6} wrap="nowrap">
                          {open ? (
                            <IconChevronDown size={14} aria-hidden />
                          ) : (
                            <IconChevronRight size={14} aria-hidden />
                          )}
                          <Text span size="sm" style={{ overflowWrap: "anywhere" }}>
                            <Visible text={nameOf(span)} most={120} />
                          </Text>
                        </Group>
                      </UnstyledButton>
                    </Table.Td>
                    <Table.Td>
                      <Visible text={span.service} most={80} />
                    </Table.Td>
                    <Table.Td>
                      <Outcome outcome={outcome}>{outcome}</Outcome>
                    </Table.Td>
                  </Table.Tr>
                  {open && (
                    <Table.Tr>
                      <Table.Td colSpan={3} bg="var(--mantine-color-body)">
                        <WhatDecided policies={policies} place={start + place} />
                      </Table.Td>
                    </Table.Tr>
                  )}
                </Fragment>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group justify="space-between" p="xs">
        {pages > 1 ? (
          <Pagination
            size="sm"
            total={pages}
            value={page}
            onChange={setPage}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(number) => ({ "aria-label": `page ${number}` })}
          />
        ) : (
          <span />
        )}
        <ButtonLink to="/trace/$traceId" params={{ traceId: trace.id }} size="xs" variant="subtle">
          Open the trace
        </ButtonLink>
      </Group>
    </>
  );
}

/** Each policy with the parts that decided its outcome for a span. */
function WhatDecided({ policies, place }: { policies: readonly PolicyTrial[]; place: number }) {
  return (
    <Stack gap="sm" py={4}>
      {policies.map((policy) => {
        const result = policy.results?.[place];
        return (
          result !== undefined && (
            <div key={policy.key}>
              <Group gap="xs" mb={4}>
                <Outcome outcome={result.outcome}>{result.outcome}</Outcome>
                <Text size="sm" fw={500}>
                  <Visible text={policy.title === "" ? "Policy without a title" : policy.title} most={120} />
                </Text>
              </Group>
              <DecidedExpression expression={policy.expression} parts={result.decided_by} />
              <DecidedDetails outcome={result.outcome} detail={result.detail} parts={result.decided_by} />
            </div>
          )
        );
      })}
    </Stack>
  );
}
