import { Badge, Button, Group, Tabs, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconArrowUp, IconX, IconZoomScan } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { CopyButton } from "../../components/CopyButton";
import { IconButton } from "../../components/IconButton";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { ServiceDot } from "../../components/ServiceDot";
import { Time } from "../../components/Time";
import { formatDuration } from "../../lib/duration";
import { writeJson } from "../../lib/json";
import { nameOrPlaceholder } from "../../lib/names";
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
import { nameOf, serviceNameOf, serviceOfSpan, type Trace } from "../../trace/model";
import { Fact } from "./Fact";
import { SearchLinks } from "./SearchLinks";
import classes from "./trace.module.css";
import { serviceColourIn } from "./useColours";
import type { TraceState } from "./useTraceState";
import { Entries, LongText, NoItems } from "./Values";
import type { MatchingSpans } from "./why/useAccess";

/** Maximum number of events and links in the document. */
const MAX_ITEMS = 100;

/** All details of a span. */
export function SpanPanel({
  trace,
  index,
  state,
  matchingSpans,
}: {
  trace: Trace;
  index: number;
  state: TraceState;
  matchingSpans: MatchingSpans;
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
  const start = instantOfValue(trace.spans[index]?.[columns.timestamp]);
  const span = trace.spans[index] ?? {};
  const searchLinks = (mapColumns: readonly string[]) => (name: string, text: string) => (
    <SearchLinks columns={mapColumns} name={name} text={text} span={span} start={start} />
  );
  /** Links for the value of a column, if the column is known. */
  const columnLinks = (column: string | undefined) =>
    column === undefined ? null : searchLinks([""])(column, textOf(trace.spans[index]?.[column]));
  const flags = trace.flags[index] ?? 0;
  const parent = trace.parent[index] ?? -1;
  const { exceptions, events, links } = parts;
  const grantingPolicies = matchingSpans.spans.get(index);
  return (
    <section aria-label="Span details" className={classes.panel}>
      <Group justify="space-between" wrap="nowrap" align="flex-start" gap="xs">
        <div className={classes.panelTitle}>
          <Title order={2} size="h3">
            <LongText text={nameOf(trace, index)} initialLength={200} /> {columnLinks(columns.name)}
          </Title>
          <Text size="sm" component="div">
            <ServiceDot colour={serviceColourIn(trace, serviceOfSpan(trace, index))} />{" "}
            <SanitizedText text={serviceNameOf(trace, index)} maxLength={120} />{" "}
            {columnLinks(columns.service)}
            {parts.kind !== "" && parts.kind !== "unspecified" && (
              <>
                {" · "}
                <SanitizedText text={parts.kind} maxLength={40} />
              </>
            )}
          </Text>
        </div>
        <Group gap={4} wrap="nowrap">
          <IconButton
            tooltip="Zoom to this span"
            onClick={() => {
              const start = trace.start[index] ?? 0;
              const duration = trace.duration[index] ?? 0;
              state.setRange({ from: start - duration * 0.05, to: start + duration * 1.05 });
            }}
          >
            <IconZoomScan size={18} aria-hidden />
          </IconButton>
          <IconButton
            tooltip="Close (Esc)"
            label="Close the details"
            onClick={() => {
              state.closeDetails();
              document.querySelector<HTMLElement>("[data-spans]")?.focus();
            }}
          >
            <IconX size={18} aria-hidden />
          </IconButton>
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
        <Fact name="Duration">
          {formatDuration(trace.duration[index] ?? 0)}
          <span className={classes.secondary}> of which self {formatDuration(trace.self[index] ?? 0)}</span>
        </Fact>
        <Fact name="Start">
          <StartTime trace={trace} index={index} />
          <span className={classes.secondary}> {formatDuration(trace.start[index] ?? 0)} into the trace</span>
        </Fact>
        <Fact name="Span id">
          <code className={classes.id}>
            <SanitizedText text={trace.ids[index] ?? ""} maxLength={64} />
          </code>{" "}
          <CopyButton value={trace.ids[index] ?? ""} name="span id" />
        </Fact>
        {parent >= 0 && (
          <Fact name="Parent">
            <Button
              size="compact-xs"
              variant="subtle"
              leftSection={<IconArrowUp size={14} aria-hidden />}
              onClick={() => state.openDetails(parent)}
              className={classes.parentButton}
            >
              <SanitizedText text={nameOf(trace, parent)} maxLength={60} />
            </Button>
          </Fact>
        )}
        {grantingPolicies !== undefined && (
          <Fact name="Grants access">
            {grantingPolicies.map(({ role, title }, policyIndex) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are identified only by their order
              <span key={`${role} ${policyIndex}`}>
                {policyIndex > 0 && ", "}
                <SanitizedText text={role} maxLength={60} /> / <SanitizedText text={title} maxLength={120} />
              </span>
            ))}
          </Fact>
        )}
        {parts.scope !== "" && (
          <Fact name="Scope">
            <SanitizedText text={parts.scope} maxLength={120} />
          </Fact>
        )}
        {parts.status !== "" && parts.status !== "error" && (
          <Fact name="Status">
            <SanitizedText text={parts.status} maxLength={40} />
          </Fact>
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
          <Entries entries={parts.attributes} label="attributes" actions={searchLinks(columns.attributes)} />
        </Tabs.Panel>
        <Tabs.Panel value="exceptions">
          {exceptions.slice(0, MAX_ITEMS).map((exception, exceptionIndex) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: exceptions of a span have no other identity
            <article key={exceptionIndex} className={classes.event}>
              <Text fw={600} c="var(--tw-error)" component="div">
                <LongText text={exception.type || "exception"} initialLength={200} />
              </Text>
              {exception.message !== "" && <LongText text={exception.message} />}
              {exception.stack !== "" && (
                <div className={classes.stack}>
                  <div className={classes.stackCopy}>
                    <CopyButton value={exception.stack} name="stack trace" />
                  </div>
                  <LongText text={exception.stack} initialLength={4_000} monospace />
                </div>
              )}
            </article>
          ))}
          <MoreItemsNotice length={exceptions.length} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          {events.length === 0 && <NoItems label="events" />}
          {events.slice(0, MAX_ITEMS).map((event, eventIndex) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: events of a span have no other identity
            <article key={eventIndex} className={classes.event}>
              <Group justify="space-between" gap="xs">
                <Text fw={600} component="div">
                  <LongText text={nameOrPlaceholder(event.name)} initialLength={200} />
                </Text>
                <EventTime trace={trace} index={index} at={event.at} />
              </Group>
              {event.attributes.length > 0 && <Entries entries={event.attributes} label="event attributes" />}
            </article>
          ))}
          <MoreItemsNotice length={events.length} />
        </Tabs.Panel>
        <Tabs.Panel value="links">
          {links.length === 0 && <NoItems label="links" />}
          {links.slice(0, MAX_ITEMS).map((link, linkIndex) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: links of a span have no other identity
            <SpanLinkItem key={linkIndex} link={link} />
          ))}
          <MoreItemsNotice length={links.length} />
        </Tabs.Panel>
        <Tabs.Panel value="resource">
          <Entries
            entries={parts.resource}
            label="resource attributes"
            actions={searchLinks(columns.resource)}
          />
        </Tabs.Panel>
        <Tabs.Panel value="raw">
          <div className={classes.stack}>
            <div className={classes.stackCopy}>
              <CopyButton value={parts.raw} name="JSON of the span" />
            </div>
            <LongText text={parts.raw} initialLength={8_000} monospace />
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
      {name}{" "}
      <span className={error ? classes.errorText : classes.secondary}>{count.toLocaleString("en")}</span>
    </Tabs.Tab>
  );
}

function MoreItemsNotice({ length }: { length: number }) {
  return length > MAX_ITEMS ? (
    <Secondary size="sm">{(length - MAX_ITEMS).toLocaleString("en")} more are listed under “Raw”.</Secondary>
  ) : null;
}

/** Problems with the span's position in the tree or its times. */
function SpanFaults({ flags, trace, index }: { flags: number; trace: Trace; index: number }) {
  const parent = trace.parent[index] ?? -1;
  const texts: string[] = [];
  const start = trace.start[index] ?? 0;
  if ((flags & Flag.MissingParent) !== 0) {
    const parentId = textOf(trace.spans[index]?.[trace.columns.parentId]).slice(0, 64);
    texts.push(`Its parent ${parentId} is not in this trace.`);
  }
  if ((flags & Flag.BeforeParent) !== 0) {
    texts.push(
      `It begins ${formatDuration((trace.start[parent] ?? 0) - start)} before its parent: their clocks differ.`,
    );
  }
  if ((flags & Flag.AfterParent) !== 0) {
    const overrun =
      start + (trace.duration[index] ?? 0) - (trace.start[parent] ?? 0) - (trace.duration[parent] ?? 0);
    texts.push(
      `It ends ${formatDuration(overrun)} after its parent: work that the parent did not wait for, or clocks that differ.`,
    );
  }
  if ((flags & Flag.Cycle) !== 0) {
    texts.push("It is in a cycle of parents, so that it is shown at the top level.");
  }
  if ((flags & Flag.Duplicate) !== 0) {
    texts.push("An earlier span has the same id.");
  }
  if ((flags & Flag.InvalidDuration) !== 0) {
    texts.push("Its duration is negative and counts as 0: by its own clock, it ended before it started.");
  }
  if ((flags & Flag.InvalidTimes) !== 0) {
    texts.push("Its start or duration is invalid.");
  }
  return texts.length === 0 ? null : (
    <div className={classes.spanFaults} role="note">
      <IconAlertTriangle size={16} aria-hidden />
      <span>
        <SanitizedText text={texts.join(" ")} />
      </span>
    </div>
  );
}

function StartTime({ trace, index }: { trace: Trace; index: number }) {
  const instant = instantOfValue(trace.spans[index]?.[trace.columns.timestamp]);
  return instant === null ? "unknown" : <Time at={instant} digits={6} />;
}

function EventTime({ trace, index, at }: { trace: Trace; index: number; at: unknown }) {
  const [event, span] = [instantOfValue(at), instantOfValue(trace.spans[index]?.[trace.columns.timestamp])];
  return (
    <Text size="xs" c="dimmed" component="span">
      {event === null || span === null ? (
        <SanitizedText text={textOf(at)} maxLength={40} />
      ) : (
        <>
          {formatDuration(nanosBetween(span, event))} after its start, <Time at={event} />
        </>
      )}
    </Text>
  );
}

function SpanLinkItem({ link }: { link: SpanLink }) {
  return (
    <article className={classes.event}>
      <Group gap={6}>
        <Link
          to="/trace/$traceId"
          params={{ traceId: link.traceId }}
          search={{ span: link.spanId }}
          className={classes.link}
        >
          <SanitizedText text={link.traceId} maxLength={64} />
        </Link>
        <CopyButton value={link.traceId} name="linked trace id" />
        <Badge variant="default" size="sm" className={classes.id}>
          span <SanitizedText text={link.spanId} maxLength={40} />
        </Badge>
      </Group>
      {link.traceState !== "" && <LongText text={`tracestate ${link.traceState}`} />}
      {link.attributes.length > 0 && <Entries entries={link.attributes} label="link attributes" />}
    </article>
  );
}
