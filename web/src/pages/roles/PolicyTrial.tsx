import {
  Alert,
  Button,
  Group,
  SegmentedControl,
  Select,
  Stack,
  TagsInput,
  Text,
  TextInput,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useId, useMemo, useState } from "react";
import { type Api, ApiError } from "../../api/client";
import { rolesQuery } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageLink } from "../../components/links";
import { Secondary } from "../../components/Secondary";
import { Section } from "../../components/Section";
import { knownUsersQuery } from "../../editor/queries";
import { AttributesEditor } from "../users/AttributesEditor";
import { type AttributeRow, attributesOf, rowsOf } from "../users/attributes";
import { userQuery } from "../users/queries";
import type { DraftPolicy } from "./draft";
import classes from "./roles.module.css";
import { TrialResults } from "./TrialResults";
import type { TrialTrace } from "./trial";
import { type SpanSource, usePolicyTrials, useSpans } from "./useTrial";

const RANGES = [
  { value: "1", label: "Last hour" },
  { value: "24", label: "Last 24 hours" },
  { value: "168", label: "Last 7 days" },
  { value: "720", label: "Last 30 days" },
];

const NO_TRACES: TrialTrace[] = [];

/** Tests the edited policies with spans that the administrator may see. Nothing is saved. */
export function PolicyTrial({
  name,
  draft,
  members,
}: {
  name: string;
  draft: readonly DraftPolicy[];
  members: readonly string[];
}) {
  const [trialUser, setTrialUser] = useState<TrialUser>({
    username: members[0] ?? null,
    roles: null,
    rows: null,
  });
  const storedUser = useQuery({
    ...userQuery(trialUser.username ?? ""),
    enabled: trialUser.username !== null,
  });
  const user = storedUser.data?.data;
  const roles = trialUser.roles ?? user?.roles ?? (name === "" ? [] : [name]);
  // The rows keep their identity as long as the user object does.
  const storedRows = useMemo(() => rowsOf(user?.attributes ?? {}), [user]);
  const rows = trialUser.rows ?? storedRows;
  const evaluatedUser: Api["EvaluatedUser"] = {
    username: trialUser.username ?? "hypothetical-user",
    roles: [...roles],
    attributes: attributesOf(rows.filter((row) => row.name.trim() !== "")),
  };
  const spans = useSpans();
  const traces = spans.data ?? NO_TRACES;
  const trial = usePolicyTrials(draft, evaluatedUser, traces, spans.submittedAt);
  return (
    <Section title="Test" description="Evaluates the policies above on real spans. A test saves nothing.">
      <Stack gap="md">
        <TrialUserForm
          trialUser={trialUser}
          members={members}
          roles={roles}
          rows={rows}
          role={name}
          onChange={(part) => setTrialUser((current) => ({ ...current, ...part }))}
          onRows={(update) =>
            setTrialUser((current) => ({ ...current, rows: update(current.rows ?? storedRows) }))
          }
        />
        <SpanSourceForm busy={spans.isPending} onLoad={(choice) => spans.mutate(choice)} />
        {spans.isError &&
          (spans.error instanceof ApiError && spans.error.code === "trace_not_found" ? (
            <NoTraces>The trace does not exist, or none of your roles grants access to it.</NoTraces>
          ) : (
            <ErrorNotice error={spans.error} />
          ))}
        {spans.isSuccess && traces.length === 0 && (
          <NoTraces>
            You have access to no trace in this time range. Try a longer one, or check your roles.
          </NoTraces>
        )}
        {traces.length > 0 && (
          <TrialResults
            traces={traces}
            policies={trial.policies}
            pending={trial.pending}
            username={trialUser.username ?? "a hypothetical user"}
          />
        )}
      </Stack>
    </Section>
  );
}

type TrialUser = {
  readonly username: string | null;
  /** Overrides of the user's roles and attributes. */
  readonly roles: readonly string[] | null;
  readonly rows: readonly AttributeRow[] | null;
};

function TrialUserForm({
  trialUser,
  members,
  roles,
  rows,
  role,
  onChange,
  onRows,
}: {
  trialUser: TrialUser;
  members: readonly string[];
  roles: readonly string[];
  rows: readonly AttributeRow[];
  role: string;
  onChange: (changes: Partial<TrialUser>) => void;
  onRows: (update: (rows: readonly AttributeRow[]) => AttributeRow[]) => void;
}) {
  const users = useQuery(knownUsersQuery);
  const allRoles = useQuery(rolesQuery);
  const otherUsers = (users.data?.users ?? []).map(({ username }) => username);
  const memberNames = new Set(members);
  const data = [
    ...(members.length === 0 ? [] : [{ group: "Members", items: [...members] }]),
    { group: "Other users", items: otherUsers.filter((username) => !memberNames.has(username)) },
  ];
  return (
    <Stack gap="xs">
      <div className={classes.formRow}>
        <Select
          className={classes.grow ?? ""}
          label="As"
          description="A user; clear it to enter roles and attributes"
          placeholder="Hypothetical user"
          searchable
          clearable
          nothingFoundMessage="No such user"
          limit={200}
          data={data}
          value={trialUser.username}
          onChange={(username) => onChange({ username, roles: null, rows: null })}
          clearButtonProps={{ "aria-label": "Choose no user" }}
        />
        <TagsInput
          className={classes.grow ?? ""}
          label="Roles"
          description="user.roles; every policy above is tested in any case"
          data={(allRoles.data?.roles ?? []).map((storedRole) => storedRole.name)}
          value={[...roles]}
          onChange={(next) => onChange({ roles: next })}
        />
      </div>
      <AttributesEditor rows={rows} onChange={onRows} showErrors={false} />
      {trialUser.username !== null && role !== "" && !roles.includes(role) && (
        <Secondary size="xs">
          {trialUser.username} does not have {role}: the result shows what the role would grant.
        </Secondary>
      )}
    </Stack>
  );
}

function SpanSourceForm({ busy, onLoad }: { busy: boolean; onLoad: (choice: SpanSource) => void }) {
  const [kind, setKind] = useState<SpanSource["kind"]>("newest");
  const [hours, setHours] = useState("24");
  const [id, setId] = useState("");
  const label = useId();
  const trimmed = id.trim();
  const load = (event: FormEvent) => {
    event.preventDefault();
    if (kind === "newest") {
      onLoad({ kind, hours: Number(hours) });
    } else if (trimmed !== "") {
      onLoad({ kind, id: trimmed });
    }
  };
  return (
    <form onSubmit={load}>
      <div className={classes.formRow}>
        <div>
          <Text size="sm" fw="var(--mantine-font-weight-medium)" id={label} mb={2}>
            Spans of
          </Text>
          <SegmentedControl
            aria-labelledby={label}
            data={[
              { value: "newest", label: "the newest traces" },
              { value: "trace", label: "one trace" },
            ]}
            value={kind}
            onChange={setKind}
          />
        </div>
        {kind === "newest" ? (
          <Select
            label="Time"
            w={170}
            allowDeselect={false}
            data={RANGES}
            value={hours}
            onChange={(value) => setHours(value ?? "24")}
          />
        ) : (
          <TextInput
            className={classes.grow ?? ""}
            label="Trace id"
            autoComplete="off"
            spellCheck={false}
            value={id}
            onChange={(event) => setId(event.currentTarget.value)}
          />
        )}
        <Button type="submit" variant="light" loading={busy} disabled={kind === "trace" && trimmed === ""}>
          Run test
        </Button>
      </div>
    </form>
  );
}

/** Policies are tested with traces that the administrator sees, of which there may be none. */
function NoTraces({ children }: { children: string }) {
  const me = useMe();
  if (me.preview !== null) {
    return (
      <Alert color="gray">
        <Text size="sm" c="var(--mantine-color-text)">
          {children} You are viewing traces as another user; end the preview to view them as yourself.
        </Text>
      </Alert>
    );
  }
  return (
    <EmptyState title="No spans to test with">
      <Group justify="center" maw={520}>
        <Text size="sm">
          {children} The admin role grants no access to traces. To see some, save a role that does and assign
          it to{" "}
          <PageLink to="/users/$username" params={{ username: me.username }} inherit underline="always">
            yourself
          </PageLink>
          ; the assignment is recorded in the audit log like every change.
        </Text>
      </Group>
    </EmptyState>
  );
}
