import { Button, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, hasStatus } from "../../api/client";
import { rolesQuery } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Notice } from "../../components/Notice";
import { checkQuery } from "../../editor/queries";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { roleQuery } from "../roles/queries";
import { assignRole } from "./queries";
import { RoleForm } from "./RoleForm";
import { StepBar } from "./StepBar";
import { TraceVisibility } from "./TraceVisibility";
import {
  expressionOf,
  fieldsForRoles,
  type RoleChoice,
  roleNameOf,
  titleOf,
  validateFirstRoleName,
} from "./templates";

/** The wizard's state of this step; `null` for unchanged proposals. */
export type RoleDraft = { choice: RoleChoice | null; title: string | null; name: string | null };

export const EMPTY_ROLE_DRAFT: RoleDraft = { choice: null, title: null, name: null };

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
  const [assignedRole, setAssignedRole] = useState<string | null>(null);
  const usableFields = fieldsForRoles(model.fields);
  const [likelyField] = usableFields;
  const choice: RoleChoice =
    draft.choice ??
    (likelyField === undefined
      ? { kind: "everything" }
      : { kind: "values", ref: likelyField.ref, values: [] });
  const expressionText = expressionOf(choice, model.fields);
  const expression = expressionText.trim();
  const title = draft.title ?? titleOf(choice, model.fields);
  const name = draft.name ?? roleNameOf(choice);
  const nameError = validateFirstRoleName(name);
  // Shares the query of the editor for the same text.
  const check = useQuery({ ...checkQuery(expressionText), enabled: false });
  const roles = useQuery(rolesQuery);
  const roleExists = nameError === null && roles.data?.roles.some((role) => role.name === name) === true;
  const role = useQuery({ ...roleQuery(name), enabled: roleExists });
  const existingRole = roleExists ? role.data?.data : undefined;
  const assign = useMutation({
    mutationFn: () => assignRole(me.username, name, { title: title.trim(), expression }),
    onSuccess: () => setAssignedRole(name),
  });
  const validationError =
    choice.kind === "values" && expression === ""
      ? "Choose a value."
      : expression === ""
        ? "Write an expression."
        : check.data?.valid === false
          ? "Fix the expression."
          : title.trim() === ""
            ? "Give the policy a title."
            : nameError;
  const isAssigned =
    me.roles.includes(name) &&
    existingRole?.policies.some((policy) => policy.expression === expression) === true;
  const change = (next: Partial<RoleDraft>) => {
    assign.reset();
    onDraft({ ...draft, ...next });
  };
  const ownRoles = me.roles.filter((role) => role !== "admin");
  return (
    <Stack gap="lg">
      <Text maw={720}>
        Administration grants no access to traces: only the policies of roles do, for administrators too.
        Assign yourself a first role. Roles for other users are created under Roles and assigned under Users.
      </Text>
      {me.preview !== null && (
        <Notice kind="warning" title="A preview is active">
          You are viewing traces as another user. End the preview to see the traces of your own roles.
        </Notice>
      )}
      <TraceVisibility key={assignedRole ?? ""} role={assignedRole} ownRoles={ownRoles} />
      <RoleForm
        fields={usableFields}
        choice={choice}
        expression={expressionText}
        title={title}
        name={name}
        nameError={draft.name === null ? null : nameError}
        examplesOf={examplesOf}
        onChoice={(next) => change({ choice: next })}
        onTitle={(next) => change({ title: next })}
        onName={(next) => change({ name: next })}
      />
      {existingRole !== undefined && !isAssigned && !assign.isPending && (
        <Notice kind="info" title={`The role ${name} exists`}>
          It has {countOf(existingRole.policies.length, "policy", "policies")} and{" "}
          {countOf(existingRole.members.length, "member")}
          {existingRole.members.length === 0
            ? ""
            : ` (${existingRole.members.slice(0, 5).map(sanitize).join(", ")}${existingRole.members.length > 5 ? ", …" : ""})`}
          . This policy is added to it, for all members. Choose another name to keep it unchanged.
        </Notice>
      )}
      {assign.error !== null && (
        <ErrorNotice
          error={assign.error}
          title={
            hasStatus(assign.error, 412)
              ? "Another user changed the role or your account at the same time; try again"
              : "The role could not be assigned to you"
          }
        />
      )}
      <StepBar hint={isAssigned ? "You have this role with this policy." : validationError}>
        <Button variant="default" onClick={onBack}>
          Back
        </Button>
        <Button
          variant={isAssigned || assignedRole !== null ? "default" : "filled"}
          loading={assign.isPending}
          disabled={validationError !== null || isAssigned}
          onClick={() => assign.mutate()}
        >
          {existingRole === undefined ? "Create role and assign it to me" : "Add to role and assign it to me"}
        </Button>
        <Button variant={isAssigned || assignedRole !== null ? "filled" : "default"} onClick={onNext}>
          {assignedRole === null ? (ownRoles.length > 0 ? "Continue" : "Skip") : "Continue"}
        </Button>
      </StepBar>
    </Stack>
  );
}
