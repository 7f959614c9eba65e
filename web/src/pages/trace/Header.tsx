import { Button, Menu, Text, Tooltip } from "@mantine/core";
import { IconDownload, IconRefresh } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { toolCall } from "../../api/mcp";
import { CopyButton } from "../../components/CopyButton";
import { PageTitle } from "../../components/PageTitle";
import { SanitizedText } from "../../components/SanitizedText";
import { Time } from "../../components/Time";
import { formatDuration } from "../../lib/duration";
import { sanitize, truncate } from "../../lib/sanitize";
import { nameOf, serviceNameOf, type Trace } from "../../trace/model";
import { downloadTrace } from "./downloadTrace";
import { Fact } from "./Fact";
import classes from "./trace.module.css";

const MAX_TITLE_LENGTH = 120;

/** Summary of the trace, with its exports. */
export function Header({
  trace,
  onReload,
  children,
}: {
  trace: Trace;
  onReload: () => void;
  children: ReactNode;
}) {
  const title = `${serviceNameOf(trace, trace.root)}: ${nameOf(trace, trace.root)}`;
  const errors = trace.errorSpans.length;
  return (
    <header className={classes.header}>
      <PageTitle title={sanitize(truncate(title, MAX_TITLE_LENGTH))} isDense>
        <CopyButton value={trace.id} name="trace id" label="Trace id" />
        <CopyButton value={() => window.location.href} name="link" label="Link" />
        <CopyButton
          value={() => toolCall("svc_get_trace", { trace_id: trace.id })}
          name="MCP call"
          label="MCP call"
        />
        <Menu position="bottom-end">
          <Menu.Target>
            <Button size="xs" variant="default" leftSection={<IconDownload size={16} aria-hidden />}>
              Export
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => downloadTrace(trace, "json")}>JSON, as returned by the API</Menu.Item>
            <Menu.Item onClick={() => downloadTrace(trace, "otlp")}>OTLP JSON</Menu.Item>
          </Menu.Dropdown>
        </Menu>
        <Tooltip label="New spans may have arrived">
          <Button
            size="xs"
            variant="default"
            leftSection={<IconRefresh size={16} aria-hidden />}
            onClick={onReload}
          >
            Reload
          </Button>
        </Tooltip>
      </PageTitle>
      <div className={classes.band}>
        <dl className={classes.facts}>
          <Fact name="Start">
            <Time at={trace.startTime} />
          </Fact>
          <Fact name="Duration">{formatDuration(trace.length)}</Fact>
          <Fact name="Spans">{trace.count.toLocaleString("en")}</Fact>
          <Fact name="Services">{trace.services.length.toLocaleString("en")}</Fact>
          <Fact name="Depth">{(trace.maxDepth + 1).toLocaleString("en")}</Fact>
          <Fact name="Errors">
            <Text span inherit c={errors > 0 ? "var(--tw-error)" : "inherit"} fw={600}>
              {errors.toLocaleString("en")}
            </Text>
          </Fact>
          <Fact name="Trace id">
            <code className={classes.id}>
              <SanitizedText text={trace.id} maxLength={64} />
            </code>
          </Fact>
        </dl>
        {children}
      </div>
    </header>
  );
}
