import { Grid, Group, Stack, Text } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { hasStatus } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { Breadcrumb } from "../../components/Breadcrumb";
import { ConfirmButton } from "../../components/ConfirmButton";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink, PageLink } from "../../components/links";
import { Notice } from "../../components/Notice";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { Section } from "../../components/Section";
import { Time } from "../../components/Time";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { CollateralAccess } from "./CollateralAccess";
import { ConflictNotice, RoleDeletedNotice } from "./ConflictNotice";
import { ImpactPreview } from "./ImpactPreview";
import { saveErrorsOf } from "./PolicyCard";
import { PolicyList } from "./PolicyList";
import { PolicyTrial } from "./PolicyTrial";
import { deleteRole } from "./queries";
import { Review } from "./Review";
import classes from "./roles.module.css";
import { SaveBar } from "./SaveBar";
import { useReview } from "./useReview";
import { useRoleDraft } from "./useRoleDraft";

export { NewRolePage } from "./NewRolePage";

const route = getRouteApi("/app/roles/$name");

/** A role: its policies, its members, and a trial of the policies. */
export function RolePage() {
  const { name } = route.useParams();
  return (
    <AdminOnly>
      <Breadcrumb parent="/roles" current={sanitize(name)} />
      {/* The key resets the state, so that no draft carries over to another role. */}
      <RoleView key={name} name={name} />
    </AdminOnly>
  );
}

function RoleView({ name }: { name: string }) {
  const roleDraft = useRoleDraft(name);
  const { role, draft, base, save, isDirty } = roleDraft;
  const isBuiltIn = name === "admin";
  const review = useReview(isBuiltIn);
  const navigate = useNavigate();
  const saveErrors = useMemo(() => saveErrorsOf(save.error, draft?.length ?? 0), [save.error, draft?.length]);
  if (roleDraft.isDeleted && !isDirty) {
    return (
      <EmptyState title="There is no such role">
        It may have been deleted.
        <Group justify="center" mt="md">
          <ButtonLink to="/roles" variant="default">
            All roles
          </ButtonLink>
        </Group>
      </EmptyState>
    );
  }
  if (draft === null || role.data === undefined) {
    return <QueryPlaceholder query={role} label="the role" height={300} />;
  }
  const { data, etag } = role.data;
  const isConflict = hasStatus(save.error, 412);
  const members = roleDraft.isDeleted ? [] : data.members;
  return (
    <>
      <UnsavedChangesPrompt when={isDirty} />
      <PageTitle title={sanitize(name)}>
        {!isBuiltIn && !roleDraft.isDeleted && (
          <ConfirmButton
            label="Delete role"
            title={`Delete ${name}?`}
            wide
            action={() => deleteRole(name, etag, () => navigate({ to: "/roles", ignoreBlocker: true }))}
          >
            <Text size="sm" mb="md">
              {members.length === 0
                ? "No user has this role. "
                : `${countOf(members.length, "member loses", "members lose")} this role, and access to every trace that only this role grants. `}
              The model history keeps its policies, but not its members.
            </Text>
            <ImpactPreview role={name} draft={null} />
          </ConfirmButton>
        )}
      </PageTitle>
      {isBuiltIn && (
        <Notice kind="info" color="gray" mb="md">
          <Text size="sm" c="var(--mantine-color-text)">
            This role is built in and cannot be deleted. It grants administration, and by itself no access to
            traces: a policy here would grant access to every administrator. Usually, administrators have
            another role for that.
          </Text>
        </Notice>
      )}
      {roleDraft.isDeleted && base.length > 0 && <RoleDeletedNotice onKeepMine={roleDraft.keepMine} />}
      {roleDraft.theirs !== null && (
        <ConflictNotice
          base={base}
          theirs={roleDraft.theirs}
          onKeepMine={roleDraft.keepMine}
          onTakeTheirs={roleDraft.takeTheirs}
        />
      )}
      {save.isError && !review.opened && !isConflict && <ErrorNotice error={save.error} />}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 8 }}>
          {draft.length === 0 && (
            <EmptyState title="No policies">
              {isBuiltIn
                ? "Administrators see traces through their other roles."
                : "A role needs at least one."}
            </EmptyState>
          )}
          <PolicyList
            draft={draft}
            onChange={(next) => {
              review.clearError();
              roleDraft.change(next);
            }}
            saveErrors={saveErrors}
            warnings={roleDraft.warnings}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 4 }}>
          <Stack gap="md">
            <MemberList names={members} />
            <Secondary size="xs">
              {data.updated_at.startsWith("1970-") ? (
                "Never changed"
              ) : (
                <>
                  Last changed <Time at={data.updated_at} digits={0} />
                </>
              )}
              {" · "}
              <PageLink to="/audit" search={{ action: "role.put" }} inherit underline="always">
                changes in the audit log
              </PageLink>
            </Secondary>
          </Stack>
        </Grid.Col>
        <Grid.Col span={12}>
          <PolicyTrial name={name} draft={draft} members={members} />
        </Grid.Col>
        {data.policies.length > 0 && !roleDraft.isDeleted && (
          <Grid.Col span={12}>
            <CollateralAccess role={name} />
          </Grid.Col>
        )}
      </Grid>
      {isDirty && roleDraft.theirs === null && (
        <SaveBar
          validationError={review.validationError}
          onReview={() => review.open(draft)}
          onDiscard={() => {
            review.clearError();
            roleDraft.discard();
          }}
        />
      )}
      {review.opened && (
        <Review
          name={name}
          before={base}
          after={draft}
          members={members}
          busy={save.isPending}
          // The page shows the result at the affected policy.
          onSave={() => save.mutate(draft, { onSettled: review.close })}
          onClose={review.close}
        />
      )}
    </>
  );
}

function MemberList({ names }: { names: readonly string[] }) {
  return (
    <Section
      title="Members"
      description={
        names.length === 0
          ? "No user has this role. Assign it to users on their pages."
          : countOf(names.length, "user has it", "users have it")
      }
      actions={
        <ButtonLink to="/users" size="xs" variant="default">
          Users
        </ButtonLink>
      }
    >
      {names.length > 0 && (
        <ul className={classes.members} aria-label="Members">
          {names.map((username) => (
            <li key={username}>
              <PageLink to="/users/$username" params={{ username }} size="sm">
                <SanitizedText text={username} />
              </PageLink>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
