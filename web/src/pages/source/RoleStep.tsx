import { Alert, Button, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, ApiError } from "../../api/client";
import { rolesQuery } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { ErrorNotice } from "../../components/ErrorNotice";
import { checkQuery } from "../../editor/queries";
import { visible } from "../../lib/visible";
import { roleQuery } from "../roles/queries";
import { counted } from "./numbers";
import { takeRole } from "./queries";
import { RoleForm } from "./RoleForm";
import { Seen } from "./Seen";
import { StepBar } from "./StepBar";
import { type Choice, expressionOf, fieldsForRoles, roleNameOf, titleOf, whyNoRoleName } from "./templates";

/** The wizard's state of this step; `null` for unchanged proposals. */
export type RoleDraft = { choice: Choice | null; title: string | null; name: string | null };

export const NO_ROLE: RoleDraft = { choice: null, title: null, name: null };

/** Step that creates a first role for the administrator, because administration alone grants no access to traces. */
export function RoleStep({
  model,
  examplesOf,
  draft,
  onDraft,
  onBack,
  onNext,
}: {
  model: Api["AccessModel"];
  /** Values of a field in the sample. */
  examplesOf: (map: string, name: string) => string[];
  draft: RoleDraft;
  onDraft: (draft: RoleDraft) => void;
  onBack: () => void;
  onNext: () => void;
}) {
  const me = useMe();
  const [taken, setTaken] = useState<string | null>(null);
  const usable = fieldsForRoles(model.fields);
  const [likely] = usable;
  const choice: Choice =
    draft.choice ??
    (likely === undefined ? { kind: "everything" } : { kind: "values", ref: likely.ref, values: [] });
  const written = expressionOf(choice, model.fields);
  const expression = written.trim();
  const title = draft.title ?? titleOf(choice, model.fields);
  const name = draft.name ?? roleNameOf(choice);
  const noName = whyNoRoleName(name);
  // Shares the query of the editor for the same text.
  const check = useQuery({ ...checkQuery(written), enabled: false });
  const roles = useQuery(rolesQuery);
  const isThere = noName === null && roles.data?.roles.some((role) => role.name === name) === true;
  const role = useQuery({ ...roleQuery(name), enabled: isThere });
  const existing = isThere ? role.data?.data : undefined;
  const take = useMutation({
    mutationFn: () => takeRole(me.username, name, { title: title.trim(), expression }),
    onSuccess: () => setTaken(name),
  });
  const missing =
    choice.kind === "values" && expression === ""
      ? "Choose a value."
      : expression === ""
        ? "Write an expression."
        : check.data?.valid === false
          ? "Fix the expression."
          : title.trim() === ""
            ? "Give the policy a title."
            : noName;
  const hasIt =
    me.roles.includes(name) && existing?.policies.some((policy) => policy.expression === expression) === true;
  const change = (next: Partial<RoleDraft>) => {
    take.reset();
    onDraft({ ...draft, ...next });
  };
  const held = me.roles.filter((role) => role !== "admin");
  return (
    <Stack gap="lg">
      <Text maw={720}>
        Administration grants no access to traces: only the policies of roles do, for administrators too.
        Assign yourself a first role. Roles for other users are created under Roles and assigned under Users.
      </Text>
      {me.preview !== null && (
        <Alert
          color="yellow"
          variant="light"
          icon={<IconAlertTriangle aria-hidden />}
          title="A preview is active"
        >
          You are viewing traces as another user. End the preview to see the traces of your own roles.
        </Alert>
      )}
      <Seen key={taken ?? ""} role={taken} held={held} />
      <RoleForm
        fields={usable}
        choice={choice}
        expression={written}
        title={title}
        name={name}
        nameError={draft.name === null ? null : noName}
        examplesOf={examplesOf}
        onChoice={(next) => change({ choice: next })}
        onTitle={(next) => change({ title: next })}
        onName={(next) => change({ name: next })}
      />
      {existing !== undefined && !hasIt && !take.isPending && (
        <Alert
          color="blue"
          variant="light"
          icon={<IconInfoCircle aria-hidden />}
          title={`The role ${name} exists`}
        >
          It has {counted(existing.policies.length, "policy", "policies")} and{" "}
          {counted(existing.members.length, "member")}
          {existing.members.length === 0
            ? ""
            : ` (${existing.members.slice(0, 5).map(visible).join(", ")}${existing.members.length > 5 ? ", …" : ""})`}
          . This policy is added to it, for all members. Choose another name to keep it unchanged.
        </Alert>
      )}
      {take.error !== null && (
        <ErrorNotice
          error={take.error}
          title={
            take.error instanceof ApiError && take.error.status === 412
              ? "Another user changed the role or your account at the same time; try again"
              : "The role could not be assigned to you"
          }
        />
      )}
      <StepBar hint={hasIt ? "You have this role with this policy." : missing}>
        <Button variant="default" onClick={onBack}>
          Back
        </Button>
        <Button
          variant={hasIt || taken !== null ? "default" : "filled"}
          loading={take.isPending}
          disabled={missing !== null || hasIt}
          onClick={() => take.mutate()}
        >
          {existing === undefined ? "Create role and assign it to me" : "Add to role and assign it to me"}
        </Button>
        <Button variant={hasIt || taken !== null ? "filled" : "default"} onClick={onNext}>
          {taken === null ? (held.length > 0 ? "Continue" : "Skip") : "Continue"}
        </Button>
      </StepBar>
    </Stack>
  );
}
