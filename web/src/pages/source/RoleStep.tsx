import { Alert, Button, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, ApiError } from "../../api/client";
import { useMe } from "../../app/useMe";
import { ErrorNotice } from "../../components/ErrorNotice";
import { visible } from "../../lib/visible";
import { counted } from "./numbers";
import { PolicyCheck, usePolicyCheck } from "./PolicyCheck";
import { roleQuery, takeRole } from "./queries";
import { RoleForm } from "./RoleForm";
import { Seen } from "./Seen";
import { StepBar } from "./StepBar";
import { type Choice, expressionOf, fieldsForRoles, roleNameOf, titleOf, whyNoRoleName } from "./templates";

/** What the wizard keeps of this step: `null` where what is proposed has not been changed. */
export type RoleDraft = { choice: Choice | null; title: string | null; name: string | null };

export const NO_ROLE: RoleDraft = { choice: null, title: null, name: null };

/** A first role for oneself: administration alone opens no trace. */
export function RoleStep({
  model,
  examplesOf,
  draft,
  onDraft,
  onBack,
  onNext,
}: {
  model: Api["AccessModel"];
  /** Values of a field that the sample showed. */
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
  const expression = expressionOf(choice, model.fields).trim();
  const title = draft.title ?? titleOf(choice, model.fields);
  const name = draft.name ?? roleNameOf(choice);
  const noName = whyNoRoleName(name);
  const check = usePolicyCheck(expression);
  const existing = useQuery({ ...roleQuery(name), enabled: noName === null });
  const take = useMutation({
    mutationFn: () => takeRole(me.username, name, { title: title.trim(), expression }),
    onSuccess: () => setTaken(name),
  });
  const invalid =
    check.data !== undefined && check.data.expression === expression && !check.data.result.valid;
  const missing =
    choice.kind === "values" && expression === ""
      ? "Choose a value."
      : expression === ""
        ? "Write an expression."
        : invalid
          ? "Mend the expression."
          : title.trim() === ""
            ? "Give the policy a title."
            : noName;
  const hasIt =
    me.roles.includes(name) &&
    existing.data?.policies.some((policy) => policy.expression === expression) === true;
  const change = (next: Partial<RoleDraft>) => {
    take.reset();
    onDraft({ ...draft, ...next });
  };
  const held = me.roles.filter((role) => role !== "admin");
  return (
    <Stack gap="lg">
      <Text maw={720}>
        Administration opens no trace: who sees what is decided by roles alone, for administrators too. Give
        yourself a first role. Others get theirs under Roles and Users.
      </Text>
      {me.preview !== null && (
        <Alert
          color="yellow"
          variant="light"
          icon={<IconAlertTriangle aria-hidden />}
          title="A preview is on"
        >
          You see traces as somebody else at the moment. End the preview to see what your own roles open.
        </Alert>
      )}
      <Seen key={taken ?? ""} role={taken} held={held} />
      <RoleForm
        fields={usable}
        choice={choice}
        expression={expression}
        title={title}
        name={name}
        nameError={draft.name === null ? null : noName}
        examplesOf={examplesOf}
        onChoice={(next) => change({ choice: next })}
        onTitle={(next) => change({ title: next })}
        onName={(next) => change({ name: next })}
      >
        <PolicyCheck check={check} expression={expression} />
      </RoleForm>
      {existing.data != null && !hasIt && !take.isPending && (
        <Alert
          color="blue"
          variant="light"
          icon={<IconInfoCircle aria-hidden />}
          title={`The role ${name} exists`}
        >
          It has {counted(existing.data.policies.length, "policy", "policies")} and{" "}
          {counted(existing.data.members.length, "member")}
          {existing.data.members.length === 0
            ? ""
            : ` (${existing.data.members.slice(0, 5).map(visible).join(", ")}${existing.data.members.length > 5 ? ", …" : ""})`}
          . This policy is added to it, for all of them. Choose another name to leave it alone.
        </Alert>
      )}
      {take.error !== null && (
        <ErrorNotice
          error={take.error}
          title={
            take.error instanceof ApiError && take.error.status === 412
              ? "Somebody else changed the role or you at the same time; try again"
              : "You could not be given the role"
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
          {existing.data == null ? "Create the role and take it" : "Add to the role and take it"}
        </Button>
        <Button variant={hasIt || taken !== null ? "filled" : "default"} onClick={onNext}>
          {taken === null ? (held.length > 0 ? "Continue" : "Skip") : "Continue"}
        </Button>
      </StepBar>
    </Stack>
  );
}
