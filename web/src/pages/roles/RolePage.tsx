import { Alert, Anchor, Breadcrumbs, Grid, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { ApiError } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { Confirm } from "../../components/Confirm";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink, PageLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { Section } from "../../components/Section";
import { Time } from "../../components/Time";
import { UnsavedChanges } from "../../components/UnsavedChanges";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import { Conflict, Deleted } from "./Conflict";
import { ImpactPreview } from "./ImpactPreview";
import { countOf } from "./listing";
import { Overshare } from "./Overshare";
import { refusalOf } from "./PolicyCard";
import { PolicyList } from "./PolicyList";
import { deleteRole } from "./queries";
import { Review } from "./Review";
import classes from "./roles.module.css";
import { SaveBar } from "./SaveBar";
import { TryIt } from "./TryIt";
import { useReview } from "./useReview";
import { useRoleDraft } from "./useRoleDraft";

export { NewRolePage } from "./NewRolePage";

const route = getRouteApi("/app/roles/$name");

/** A role: its policies, its members, and a trial of the policies. */
export function RolePage() {
  const { name } = route.useParams();
  return (
    <AdminOnly>
      <Breadcrumbs mb="xs">
        <Anchor component={Link} to="/roles">
          Roles
        </Anchor>
        <Text span>{visible(name)}</Text>
      </Breadcrumbs>
      {/* The key resets the state, so that no draft carries over to another role. */}
      <OneRole key={name} name={name} />
    </AdminOnly>
  );
}

function OneRole({ name }: { name: string }) {
  const edited = useRoleDraft(name);
  const { role, draft, base, save, dirty } = edited;
  const builtIn = name === "admin";
  const review = useReview(builtIn);
  const navigate = useNavigate();
  const refused = useMemo(() => refusalOf(save.error, draft?.length ?? 0), [save.error, draft?.length]);
  if (edited.gone && !dirty) {
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
    return role.error === null ? (
      <Skeleton height={300} aria-label="Loading the role" />
    ) : (
      <ErrorNotice error={role.error} onRetry={() => void role.refetch()} />
    );
  }
  const { data, tag } = role.data;
  const conflict = save.error instanceof ApiError && save.error.status === 412;
  const members = edited.gone ? [] : data.members;
  return (
    <>
      <UnsavedChanges when={dirty} />
      <PageTitle title={visible(name)}>
        {!builtIn && !edited.gone && (
          <Confirm
            label="Delete role"
            title={`Delete ${name}?`}
            wide
            action={() => deleteRole(name, tag, () => navigate({ to: "/roles", ignoreBlocker: true }))}
          >
            <Text size="sm" mb="md">
              {members.length === 0
                ? "No user has this role. "
                : `${countOf(members.length, "member loses", "members lose")} this role, and access to every trace that only this role grants. `}
              The model history keeps its policies, but not its members.
            </Text>
            <ImpactPreview role={name} draft={null} />
          </Confirm>
        )}
      </PageTitle>
      {builtIn && (
        <Alert color="gray" variant="light" mb="md" icon={<IconInfoCircle aria-hidden />}>
          <Text size="sm" c="var(--mantine-color-text)">
            This role is built in and cannot be deleted. It grants administration, and by itself no access to
            traces: a policy here would grant access to every administrator. Usually, administrators have
            another role for that.
          </Text>
        </Alert>
      )}
      {edited.gone && base.length > 0 && <Deleted onKeepMine={edited.keepMine} />}
      {edited.theirs !== null && (
        <Conflict
          base={base}
          theirs={edited.theirs}
          onKeepMine={edited.keepMine}
          onTakeTheirs={edited.takeTheirs}
        />
      )}
      {save.isError && !review.opened && !conflict && <ErrorNotice error={save.error} />}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 8 }}>
          {draft.length === 0 && (
            <EmptyState title="No policies">
              {builtIn
                ? "Administrators see traces through their other roles."
                : "A role needs at least one."}
            </EmptyState>
          )}
          <PolicyList
            draft={draft}
            onChange={(next) => {
              review.forget();
              edited.change(next);
            }}
            refused={refused}
            warnings={edited.warnings}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 4 }}>
          <Stack gap="md">
            <Members names={members} />
            <Text size="xs" c="var(--tw-quiet)">
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
            </Text>
          </Stack>
        </Grid.Col>
        <Grid.Col span={12}>
          <TryIt name={name} draft={draft} members={members} />
        </Grid.Col>
        {data.policies.length > 0 && !edited.gone && (
          <Grid.Col span={12}>
            <Overshare role={name} />
          </Grid.Col>
        )}
      </Grid>
      {dirty && edited.theirs === null && (
        <SaveBar
          problem={review.problem}
          onReview={() => review.open(draft)}
          onDiscard={() => {
            review.forget();
            edited.discard();
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
          error={null}
          // The page shows the result at the affected policy.
          onSave={() => save.mutate(draft, { onSettled: review.close })}
          onClose={review.close}
        />
      )}
    </>
  );
}

function Members({ names }: { names: readonly string[] }) {
  return (
    <Section
      title="Members"
      about={
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
                <Visible text={username} />
              </PageLink>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
