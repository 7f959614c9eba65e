import { Alert, Button, CloseButton, Code, Group, Stack, Table, Text } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconChevronDown, IconChevronUp } from "@tabler/icons-react";
import { useRouter } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Api } from "../../api/client";
import { CopyButton } from "../../components/CopyButton";
import { IconButton } from "../../components/IconButton";
import { ButtonLink, PageLink } from "../../components/links";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { Time } from "../../components/Time";
import { writeJson } from "../../lib/json";
import { actionLabel } from "./actions";
import classes from "./audit.module.css";
import { rangeAround, rangeOfOne } from "./filter";
import { OutcomeBadge } from "./OutcomeBadge";
import { actorFilter, actorName, toolCallOf, viaLabel } from "./record";

type AuditRecord = Api["AuditRecord"];

/** All details of a record, with links to related pages. */
export function RecordPanel({
  record,
  recordId,
  newer,
  older,
  onShow,
  onClose,
}: {
  record: AuditRecord | undefined;
  /** The id in the URL, whose record may not be loaded. */
  recordId: string | undefined;
  newer: AuditRecord | undefined;
  older: AuditRecord | undefined;
  onShow: (id: string) => void;
  onClose: () => void;
}) {
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // Repeated for each record, so that screen readers read its heading and the keys work at once.
    if (recordId !== undefined) {
      panel.current?.focus({ preventScroll: true });
    }
  }, [recordId]);
  const show = (target: AuditRecord | undefined) => target !== undefined && onShow(target.id);
  useHotkeys(
    recordId === undefined
      ? []
      : [
          ["Escape", onClose],
          ["j", () => show(older)],
          ["k", () => show(newer)],
        ],
  );
  if (recordId === undefined) {
    return null;
  }
  return (
    <aside ref={panel} className={classes.panel} aria-label="Record" tabIndex={-1}>
      <CloseButton className={classes.close} aria-label="Close the record" onClick={onClose} />
      {record === undefined ? (
        <Alert mr={40} color="gray" title="This record is not loaded">
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
              <StepButton label="Newer record" target={newer} onShow={onShow}>
                <IconChevronUp size={18} aria-hidden />
              </StepButton>
              <StepButton label="Older record" target={older} onShow={onShow}>
                <IconChevronDown size={18} aria-hidden />
              </StepButton>
            </Group>
          </Group>
          <RecordLinks record={record} />
          <RecordFields record={record} />
          <RecordDetail key={record.id} detail={record.detail} />
        </Stack>
      )}
    </aside>
  );
}

function StepButton({
  label,
  target,
  onShow,
  children,
}: {
  label: string;
  target: AuditRecord | undefined;
  onShow: (id: string) => void;
  children: ReactNode;
}) {
  return (
    <IconButton
      tooltip={label}
      variant="default"
      disabled={target === undefined}
      onClick={() => target !== undefined && onShow(target.id)}
    >
      {children}
    </IconButton>
  );
}

const TRACE_ACTIONS: ReadonlySet<string> = new Set(["traces.get", "traces.explain", "traces.viewers"]);

const ROLE_ACTIONS: ReadonlySet<string> = new Set([
  "role.put",
  "role.delete",
  "policy.preview",
  "policy.collateral_access",
]);

/** Actions that create a version of the access model. */
const MODEL_ACTIONS: ReadonlySet<string> = new Set([
  "role.put",
  "role.delete",
  "schema.put_binding",
  "schema.put_fields",
  "model.import",
  "model.restore",
]);

const LINK = { size: "xs", variant: "default" } as const;

/** Links from a record to related pages. */
function RecordLinks({ record }: { record: AuditRecord }) {
  const router = useRouter();
  const actor = actorFilter(record);
  const { target, action } = record;
  const link = () =>
    window.location.origin +
    router.buildLocation({ to: "/audit", search: { ...rangeOfOne(record.at), record: record.id } })
      .publicHref;
  return (
    <Group gap="xs">
      {record.request_id !== "" && (
        <ButtonLink
          {...LINK}
          to="/audit"
          search={{ ...rangeAround(record.at, 60), request: record.request_id, record: record.id }}
        >
          All records of this request
        </ButtonLink>
      )}
      {actor !== null && (
        <ButtonLink {...LINK} to="/audit" search={{ actor }}>
          All records of this actor
        </ButtonLink>
      )}
      {record.actor.credential_id !== null && (
        <ButtonLink {...LINK} to="/audit" search={{ key: record.actor.credential_id }}>
          {record.actor.via === "session" ? "All records of this session" : "All records of this API key"}
        </ButtonLink>
      )}
      {target !== null && target !== "" && (
        <ButtonLink {...LINK} to="/audit" search={{ target }}>
          All records of this target
        </ButtonLink>
      )}
      {record.actor.username !== null && (
        <ButtonLink {...LINK} to="/users/$username" params={{ username: record.actor.username }}>
          This user’s page
        </ButtonLink>
      )}
      {target !== null && action.startsWith("user.") && target !== record.actor.username && (
        <ButtonLink {...LINK} to="/users/$username" params={{ username: target }}>
          The changed user’s page
        </ButtonLink>
      )}
      {target !== null && ROLE_ACTIONS.has(action) && (
        <ButtonLink {...LINK} to="/roles/$name" params={{ name: target }}>
          The role’s page
        </ButtonLink>
      )}
      {MODEL_ACTIONS.has(action) && record.outcome === "success" && (
        <ButtonLink {...LINK} to="/history">
          Model history
        </ButtonLink>
      )}
      {target !== null && TRACE_ACTIONS.has(action) && (
        <ButtonLink {...LINK} to="/trace/$traceId" params={{ traceId: target }}>
          The trace
        </ButtonLink>
      )}
      <CopyButton value={link} name="link" label="Copy link" />
    </Group>
  );
}

function RecordFields({ record }: { record: AuditRecord }) {
  const { actor } = record;
  const call = toolCallOf(record);
  return (
    <Table verticalSpacing={4} layout="fixed" aria-label="The record">
      <Table.Tbody>
        <RecordField name="Time">
          <Time at={record.at} digits={6} />
        </RecordField>
        {record.completed_at !== null && (
          <RecordField name="Completed">
            <Time at={record.completed_at} digits={6} />
          </RecordField>
        )}
        <RecordField name="Actor">
          {actor.username === null ? (
            actorName(record)
          ) : (
            <PageLink to="/users/$username" params={{ username: actor.username }} inherit>
              <SanitizedText text={actor.username} />
            </PageLink>
          )}
        </RecordField>
        <RecordField name="Actor id" text={actor.id} copyable />
        <RecordField name="Via" text={viaLabel(actor.via)} />
        {call !== null && (
          <>
            <RecordField name="MCP tool" text={call.tool} />
            <RecordField name="MCP client" text={call.client} />
          </>
        )}
        <RecordField name="Session or key" text={actor.credential_id} copyable />
        <RecordField name="Action">
          <Code>{record.action}</Code>
        </RecordField>
        <RecordField name="Target" text={record.target} copyable />
        <RecordField name="Client address" text={record.client_ip} />
        <RecordField name="User agent" text={record.user_agent} />
        <RecordField name="Request id" text={record.request_id} copyable />
        <RecordField name="Record" text={record.id} />
      </Table.Tbody>
    </Table>
  );
}

/** A member of the record: its content, or its text, which may be absent. */
function RecordField({
  name,
  text = null,
  copyable = false,
  children,
}: {
  name: string;
  text?: string | null;
  copyable?: boolean;
  children?: ReactNode;
}) {
  const hasText = text !== null && text !== "";
  return (
    <Table.Tr>
      <Table.Th scope="row" w={130} fw={400} c="dimmed">
        {name}
      </Table.Th>
      <Table.Td style={{ overflowWrap: "anywhere" }}>
        {children ?? (hasText ? <SanitizedText text={text} maxLength={300} /> : <Secondary>–</Secondary>)}
        {copyable && hasText && (
          <span className={classes.copy}>
            <CopyButton value={text} name={name.toLowerCase()} />
          </span>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** Number of characters shown initially: a record's details can be several times 64 KiB. */
const INITIAL_LENGTH = 8_000;

function RecordDetail({ detail }: { detail: unknown }) {
  const [showAll, setShowAll] = useState(false);
  const text = writeJson(detail);
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text fw={600}>Details</Text>
        <CopyButton value={text} name="details" />
      </Group>
      <Code block className={classes.detail} tabIndex={0} aria-label="Details as JSON">
        <SanitizedText text={text} {...(showAll ? {} : { maxLength: INITIAL_LENGTH })} />
      </Code>
      {!showAll && text.length > INITIAL_LENGTH && (
        <Button mt="xs" size="xs" variant="default" onClick={() => setShowAll(true)}>
          Show all {text.length.toLocaleString("en")} characters
        </Button>
      )}
    </div>
  );
}
