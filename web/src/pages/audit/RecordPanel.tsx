import {
  ActionIcon,
  Alert,
  Button,
  CloseButton,
  Code,
  Group,
  Stack,
  Table,
  Text,
  Tooltip,
} from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconChevronDown, IconChevronUp } from "@tabler/icons-react";
import { useRouter } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Api } from "../../api/client";
import { Copy } from "../../components/Copy";
import { ButtonLink, PageLink } from "../../components/links";
import { Time } from "../../components/Time";
import { Visible } from "../../components/Visible";
import { writeJson } from "../../lib/json";
import { actionLabel } from "./actions";
import classes from "./audit.module.css";
import { around, only } from "./filter";
import { OutcomeBadge } from "./OutcomeBadge";
import { actorFilter, actorName, toolCallOf, viaLabel } from "./record";

type AuditRecord = Api["AuditRecord"];

/** All details of a record, with links to related pages. */
export function RecordPanel({
  record,
  wanted,
  newer,
  older,
  onShow,
  onClose,
}: {
  record: AuditRecord | undefined;
  /** The id in the URL, whose record may not be loaded. */
  wanted: string | undefined;
  newer: AuditRecord | undefined;
  older: AuditRecord | undefined;
  onShow: (id: string) => void;
  onClose: () => void;
}) {
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // Repeated for each record, so that screen readers read its heading and the keys work at once.
    if (wanted !== undefined) {
      panel.current?.focus({ preventScroll: true });
    }
  }, [wanted]);
  const show = (to: AuditRecord | undefined) => to !== undefined && onShow(to.id);
  useHotkeys(
    wanted === undefined
      ? []
      : [
          ["Escape", onClose],
          ["j", () => show(older)],
          ["k", () => show(newer)],
        ],
  );
  if (wanted === undefined) {
    return null;
  }
  return (
    <aside ref={panel} className={classes.panel} aria-label="Record" tabIndex={-1}>
      <CloseButton className={classes.close} aria-label="Close the record" onClick={onClose} />
      {record === undefined ? (
        <Alert mr={40} color="gray" variant="light" title="This record is not loaded">
          Load more records, or widen the filters. The record may also have been removed because of its age.
        </Alert>
      ) : (
        <Stack gap="md">
          <Group justify="space-between" wrap="nowrap" align="flex-start" pr={40}>
            <div>
              <Text fw={650} size="lg">
                {actionLabel(record.action)}
              </Text>
              <OutcomeBadge outcome={record.outcome} />
            </div>
            <Group gap={4} wrap="nowrap">
              <Step label="Newer record" to={newer} onShow={onShow}>
                <IconChevronUp size={18} aria-hidden />
              </Step>
              <Step label="Older record" to={older} onShow={onShow}>
                <IconChevronDown size={18} aria-hidden />
              </Step>
            </Group>
          </Group>
          <Links record={record} />
          <Members record={record} />
          <Detail key={record.id} detail={record.detail} />
        </Stack>
      )}
    </aside>
  );
}

function Step({
  label,
  to,
  onShow,
  children,
}: {
  label: string;
  to: AuditRecord | undefined;
  onShow: (id: string) => void;
  children: ReactNode;
}) {
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant="default"
        aria-label={label}
        disabled={to === undefined}
        onClick={() => to !== undefined && onShow(to.id)}
      >
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

const ABOUT_ONE_TRACE: ReadonlySet<string> = new Set(["traces.get", "traces.explain", "traces.viewers"]);

const ABOUT_A_ROLE: ReadonlySet<string> = new Set([
  "role.put",
  "role.delete",
  "policy.preview",
  "policy.overshare",
]);

/** Actions that create a version of the access model. */
const IN_HISTORY: ReadonlySet<string> = new Set([
  "role.put",
  "role.delete",
  "schema.put_binding",
  "schema.put_fields",
  "model.import",
  "model.restore",
]);

/** Links from a record to related pages. */
function Links({ record }: { record: AuditRecord }) {
  const router = useRouter();
  const actor = actorFilter(record);
  const { target, action } = record;
  const link = () =>
    window.location.origin +
    router.buildLocation({ to: "/audit", search: { ...only(record.at), record: record.id } }).publicHref;
  return (
    <Group gap="xs">
      {record.request_id !== "" && (
        <ButtonLink
          size="xs"
          variant="default"
          to="/audit"
          search={{ ...around(record.at, 60), request: record.request_id, record: record.id }}
        >
          All records of this request
        </ButtonLink>
      )}
      {actor !== null && (
        <ButtonLink size="xs" variant="default" to="/audit" search={{ actor }}>
          All records of this actor
        </ButtonLink>
      )}
      {record.actor.username !== null && (
        <ButtonLink
          size="xs"
          variant="default"
          to="/users/$username"
          params={{ username: record.actor.username }}
        >
          This user’s page
        </ButtonLink>
      )}
      {target !== null && action.startsWith("user.") && target !== record.actor.username && (
        <ButtonLink size="xs" variant="default" to="/users/$username" params={{ username: target }}>
          The changed user’s page
        </ButtonLink>
      )}
      {target !== null && ABOUT_A_ROLE.has(action) && (
        <ButtonLink size="xs" variant="default" to="/roles/$name" params={{ name: target }}>
          The role’s page
        </ButtonLink>
      )}
      {IN_HISTORY.has(action) && record.outcome === "success" && (
        <ButtonLink size="xs" variant="default" to="/history">
          Model history
        </ButtonLink>
      )}
      {target !== null && ABOUT_ONE_TRACE.has(action) && (
        <ButtonLink size="xs" variant="default" to="/trace/$traceId" params={{ traceId: target }}>
          The trace
        </ButtonLink>
      )}
      <Copy value={link} what="link" label="Copy link" />
    </Group>
  );
}

function Members({ record }: { record: AuditRecord }) {
  const { actor } = record;
  const call = toolCallOf(record);
  return (
    <Table verticalSpacing={4} layout="fixed" aria-label="The record">
      <Table.Tbody>
        <Member name="Time">
          <Time at={record.at} digits={6} />
        </Member>
        {record.completed_at !== null && (
          <Member name="Completed">
            <Time at={record.completed_at} digits={6} />
          </Member>
        )}
        <Member name="Actor">
          {actor.username === null ? (
            actorName(record)
          ) : (
            <PageLink to="/users/$username" params={{ username: actor.username }} inherit>
              <Visible text={actor.username} />
            </PageLink>
          )}
        </Member>
        <Member name="Actor id" copy={actor.id}>
          {actor.id}
        </Member>
        <Member name="Via">{viaLabel(actor.via)}</Member>
        {call !== null && (
          <>
            <Member name="MCP tool">
              {call.tool === null ? null : <Visible text={call.tool} most={100} />}
            </Member>
            <Member name="MCP client">
              {call.client === null ? null : <Visible text={call.client} most={300} />}
            </Member>
          </>
        )}
        <Member name="Session or key" copy={actor.credential_id}>
          {actor.credential_id}
        </Member>
        <Member name="Action">
          <Code>{record.action}</Code>
        </Member>
        <Member name="Target" copy={record.target}>
          {record.target === null ? null : <Visible text={record.target} />}
        </Member>
        <Member name="Client address">
          {record.client_ip === null ? null : <Visible text={record.client_ip} />}
        </Member>
        <Member name="User agent">
          {record.user_agent === null ? null : <Visible text={record.user_agent} most={300} />}
        </Member>
        <Member name="Request id" copy={record.request_id || null}>
          {record.request_id || null}
        </Member>
        <Member name="Record">{record.id}</Member>
      </Table.Tbody>
    </Table>
  );
}

function Member({ name, copy, children }: { name: string; copy?: string | null; children: ReactNode }) {
  return (
    <Table.Tr>
      <Table.Th scope="row" w={130} fw={400} c="var(--tw-quiet)">
        {name}
      </Table.Th>
      <Table.Td style={{ overflowWrap: "anywhere" }}>
        {children === null ? (
          <Text span inherit c="var(--tw-quiet)">
            –
          </Text>
        ) : (
          children
        )}
        {copy !== undefined && copy !== null && (
          <span className={classes.copy}>
            <Copy value={copy} what={name.toLowerCase()} />
          </span>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** Number of characters shown initially: a record's details can be several times 64 KiB. */
const SHOWN = 8_000;

function Detail({ detail }: { detail: unknown }) {
  const [all, setAll] = useState(false);
  const text = writeJson(detail);
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text fw={600}>Details</Text>
        <Copy value={text} what="details" />
      </Group>
      <Code block className={classes.detail} tabIndex={0} aria-label="Details as JSON">
        <Visible text={text} {...(all ? {} : { most: SHOWN })} />
      </Code>
      {!all && text.length > SHOWN && (
        <Button mt="xs" size="xs" variant="default" onClick={() => setAll(true)}>
          Show all {text.length.toLocaleString("en")} characters
        </Button>
      )}
    </div>
  );
}
