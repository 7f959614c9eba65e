import { ActionIcon, Badge, Button, Group, Tabs, Text, Title, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconArrowUp, IconX, IconZoomScan } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { Copy } from "../../components/Copy";
import { Time } from "../../components/Time";
import { Visible } from "../../components/Visible";
import { serviceColour } from "../../lib/colours";
import { formatDuration } from "../../lib/duration";
import { writeJson } from "../../lib/json";
import { nameOrNone } from "../../lib/names";
import { nanosBetween } from "../../lib/time";
import { instantOfValue, textOf } from "../../trace/columns";
import {
  attributesOf,
  eventsOf,
  exceptionsOf,
  kindOf,
  linksOf,
  resourceOf,
  type SpanLink,
  statusOf,
} from "../../trace/details";
import { Flag } from "../../trace/flags";
import { nameOf, serviceNameOf, type Trace } from "../../trace/model";
import classes from "./trace.module.css";
import type { TraceState } from "./useTraceState";
import { Entries, LongText } from "./Values";
import type { Opening } from "./why/useAccess";

/** Maximum number of events and links in the document. */
const MOST = 100;

/** All details of a span. */
export function Panel({
  trace,
  index,
  state,
  opening,
}: {
  trace: Trace;
  index: number;
  state: TraceState;
  opening: Opening;
}) {
  const { columns } = trace;
  const parts = useMemo(() => {
    const span = trace.spans[index] ?? {};
    return {
      attributes: attributesOf(span, columns),
      resource: resourceOf(span, columns),
      events: eventsOf(span, columns),
      exceptions: exceptionsOf(span, columns),
      links: linksOf(span, columns),
      raw: writeJson(span, 2),
      message: columns.statusMessage === undefined ? "" : textOf(span[columns.statusMessage]),
      status: statusOf(span, columns),
      kind: kindOf(span, columns),
      scope: [columns.scopeName, columns.scopeVersion]
        .map((column) => (column === undefined ? "" : textOf(span[column])))
        .filter((text) => text !== "")
        .join(" "),
    };
  }, [trace, index, columns]);
  const flags = trace.flags[index] ?? 0;
  const parent = trace.parent[index] ?? -1;
  const { exceptions, events, links } = parts;
  const opens = opening.spans.get(index);
  return (
    <section aria-label="Span details" className={classes.panel}>
      <Group justify="space-between" wrap="nowrap" align="flex-start" gap="xs">
        <div className={classes.panelTitle}>
          <Title order={2} size="h3">
            <LongText text={nameOf(trace, index)} first={200} />
          </Title>
          <Text size="sm" component="div">
            <span
              className={classes.dot}
              style={{ background: serviceColour(trace.services[trace.service[index] ?? 0]?.name ?? "") }}
              aria-hidden
            />{" "}
            <Visible text={serviceNameOf(trace, index)} most={120} />
            {parts.kind !== "" && parts.kind !== "unspecified" && (
              <>
                {" · "}
                <Visible text={parts.kind} most={40} />
              </>
            )}
          </Text>
        </div>
        <Group gap={4} wrap="nowrap">
          <Tooltip label="Zoom to this span">
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label="Zoom to this span"
              onClick={() => {
                const start = trace.start[index] ?? 0;
                const took = trace.duration[index] ?? 0;
                state.setRange({ from: start - took * 0.05, to: start + took * 1.05 });
              }}
            >
              <IconZoomScan size={18} aria-hidden />
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Close (Esc)">
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label="Close the details"
              onClick={() => {
                state.closeDetails();
                document.querySelector<HTMLElement>("[data-spans]")?.focus();
              }}
            >
              <IconX size={18} aria-hidden />
            </ActionIcon>
          </Tooltip>
        </Group>
      </Group>

      <SpanFaults flags={flags} trace={trace} index={index} />
      {(parts.status === "error" || parts.message !== "") && (
        <div className={parts.status === "error" ? classes.statusError : classes.statusOther}>
          <strong>{parts.status === "error" ? "Error" : "Status"}</strong>{" "}
          {parts.message !== "" && <LongText text={parts.message} />}
        </div>
      )}

      <dl className={classes.spanFacts}>
        <SpanFact name="Duration">
          {formatDuration(trace.duration[index] ?? 0)}
          <span className={classes.quiet}> of which self {formatDuration(trace.self[index] ?? 0)}</span>
        </SpanFact>
        <SpanFact name="Start">
          <StartOf trace={trace} index={index} />
          <span className={classes.quiet}> {formatDuration(trace.start[index] ?? 0)} into the trace</span>
        </SpanFact>
        <SpanFact name="Span id">
          <code className={classes.id}>
            <Visible text={trace.ids[index] ?? ""} most={64} />
          </code>{" "}
          <Copy value={trace.ids[index] ?? ""} what="span id" />
        </SpanFact>
        {parent >= 0 && (
          <SpanFact name="Parent">
            <Button
              size="compact-xs"
              variant="subtle"
              leftSection={<IconArrowUp size={14} aria-hidden />}
              onClick={() => state.openDetails(parent)}
              className={classes.parentButton}
            >
              <Visible text={nameOf(trace, parent)} most={60} />
            </Button>
          </SpanFact>
        )}
        {opens !== undefined && (
          <SpanFact name="Grants access">
            {opens.map(({ role, title }, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are identified only by their order
              <span key={`${role} ${place}`}>
                {place > 0 && ", "}
                <Visible text={role} most={60} /> / <Visible text={title} most={120} />
              </span>
            ))}
          </SpanFact>
        )}
        {parts.scope !== "" && (
          <SpanFact name="Scope">
            <Visible text={parts.scope} most={120} />
          </SpanFact>
        )}
        {parts.status !== "" && parts.status !== "error" && (
          <SpanFact name="Status">
            <Visible text={parts.status} most={40} />
          </SpanFact>
        )}
      </dl>

      <Tabs defaultValue={exceptions.length > 0 ? "exceptions" : "attributes"} keepMounted={false}>
        <Tabs.List mb="xs" className={classes.tabs}>
          <Tab value="attributes" name="Attributes" count={parts.attributes.length} />
          {exceptions.length > 0 && (
            <Tab value="exceptions" name="Exceptions" count={exceptions.length} error />
          )}
          <Tab value="events" name="Events" count={events.length} />
          <Tab value="links" name="Links" count={links.length} />
          <Tab value="resource" name="Resource" count={parts.resource.length} />
          <Tabs.Tab value="raw">Raw</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="attributes">
          <Entries entries={parts.attributes} what="attributes" />
        </Tabs.Panel>
        <Tabs.Panel value="exceptions">
          {exceptions.slice(0, MOST).map((exception, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: exceptions of a span have no other identity
            <article key={place} className={classes.event}>
              <Text fw={600} c="var(--tw-error)" component="div">
                <LongText text={exception.type || "exception"} first={200} />
              </Text>
              {exception.message !== "" && <LongText text={exception.message} />}
              {exception.stack !== "" && (
                <div className={classes.stack}>
                  <div className={classes.stackCopy}>
                    <Copy value={exception.stack} what="stack trace" />
                  </div>
                  <LongText text={exception.stack} first={4_000} mono />
                </div>
              )}
            </article>
          ))}
          <Cut length={exceptions.length} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          {events.length === 0 && <Nothing what="events" />}
          {events.slice(0, MOST).map((event, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: events of a span have no other identity
            <article key={place} className={classes.event}>
              <Group justify="space-between" gap="xs">
                <Text fw={600} component="div">
                  <LongText text={nameOrNone(event.name)} first={200} />
                </Text>
                <EventTime trace={trace} index={index} at={event.at} />
              </Group>
              {event.attributes.length > 0 && <Entries entries={event.attributes} what="event attributes" />}
            </article>
          ))}
          <Cut length={events.length} />
        </Tabs.Panel>
        <Tabs.Panel value="links">
          {links.length === 0 && <Nothing what="links" />}
          {links.slice(0, MOST).map((link, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: links of a span have no other identity
            <LinkOf key={place} link={link} />
          ))}
          <Cut length={links.length} />
        </Tabs.Panel>
        <Tabs.Panel value="resource">
          <Entries entries={parts.resource} what="resource attributes" />
        </Tabs.Panel>
        <Tabs.Panel value="raw">
          <div className={classes.stack}>
            <div className={classes.stackCopy}>
              <Copy value={parts.raw} what="JSON of the span" />
            </div>
            <LongText text={parts.raw} first={8_000} mono />
          </div>
        </Tabs.Panel>
      </Tabs>
    </section>
  );
}

function Tab({
  value,
  name,
  count,
  error = false,
}: {
  value: string;
  name: string;
  count: number;
  error?: boolean;
}) {
  return (
    <Tabs.Tab value={value}>
      {name} <span className={error ? classes.errorText : classes.quiet}>{count.toLocaleString("en")}</span>
    </Tabs.Tab>
  );
}

function SpanFact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Nothing({ what }: { what: string }) {
  return (
    <Text size="sm" c="var(--tw-quiet)">
      There are no {what}.
    </Text>
  );
}

function Cut({ length }: { length: number }) {
  return length > MOST ? (
    <Text size="sm" c="var(--tw-quiet)">
      {(length - MOST).toLocaleString("en")} more are under “Raw”.
    </Text>
  ) : null;
}

/** Problems with the span's position in the tree or its times. */
function SpanFaults({ flags, trace, index }: { flags: number; trace: Trace; index: number }) {
  const parent = trace.parent[index] ?? -1;
  const said: string[] = [];
  const start = trace.start[index] ?? 0;
  if ((flags & Flag.MissingParent) !== 0) {
    const named = textOf(trace.spans[index]?.[trace.columns.parentId]).slice(0, 64);
    said.push(`Its parent ${named} is not in this trace.`);
  }
  if ((flags & Flag.BeforeParent) !== 0) {
    said.push(
      `It begins ${formatDuration((trace.start[parent] ?? 0) - start)} before its parent: their clocks differ.`,
    );
  }
  if ((flags & Flag.AfterParent) !== 0) {
    const late =
      start + (trace.duration[index] ?? 0) - (trace.start[parent] ?? 0) - (trace.duration[parent] ?? 0);
    said.push(
      `It ends ${formatDuration(late)} after its parent: work that the parent did not wait for, or clocks that differ.`,
    );
  }
  if ((flags & Flag.Cycle) !== 0) {
    said.push("It is in a cycle of parents, so that it is shown at the top level.");
  }
  if ((flags & Flag.Duplicate) !== 0) {
    said.push("An earlier span has the same id.");
  }
  if ((flags & Flag.InvalidDuration) !== 0) {
    said.push("Its duration is negative and counts as 0: by its own clock, it ended before it started.");
  }
  if ((flags & Flag.Untimed) !== 0) {
    said.push("Its start or duration is invalid.");
  }
  return said.length === 0 ? null : (
    <div className={classes.spanFaults} role="note">
      <IconAlertTriangle size={16} aria-hidden />
      <span>
        <Visible text={said.join(" ")} />
      </span>
    </div>
  );
}

function StartOf({ trace, index }: { trace: Trace; index: number }) {
  const instant = instantOfValue(trace.spans[index]?.[trace.columns.timestamp]);
  return instant === null ? "unknown" : <Time at={instant} digits={6} />;
}

function EventTime({ trace, index, at }: { trace: Trace; index: number; at: unknown }) {
  const [event, span] = [instantOfValue(at), instantOfValue(trace.spans[index]?.[trace.columns.timestamp])];
  return (
    <Text size="xs" c="var(--tw-quiet)" component="span">
      {event === null || span === null ? (
        <Visible text={textOf(at)} most={40} />
      ) : (
        <>
          {formatDuration(nanosBetween(span, event))} after its start, <Time at={event} />
        </>
      )}
    </Text>
  );
}

function LinkOf({ link }: { link: SpanLink }) {
  return (
    <article className={classes.event}>
      <Group gap={6}>
        <Link
          to="/trace/$traceId"
          params={{ traceId: link.traceId }}
          search={{ span: link.spanId }}
          className={classes.link}
        >
          <Visible text={link.traceId} most={64} />
        </Link>
        <Copy value={link.traceId} what="linked trace id" />
        <Badge variant="default" size="sm" tt="none" className={classes.id}>
          span <Visible text={link.spanId} most={40} />
        </Badge>
      </Group>
      {link.traceState !== "" && <LongText text={`tracestate ${link.traceState}`} />}
      {link.attributes.length > 0 && <Entries entries={link.attributes} what="link attributes" />}
    </article>
  );
}
