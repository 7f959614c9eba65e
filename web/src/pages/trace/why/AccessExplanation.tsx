import { Alert, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type Api, ApiError } from "../../../api/client";
import { useMe } from "../../../app/useMe";
import { ErrorNotice } from "../../../components/ErrorNotice";
import { PageLink } from "../../../components/links";
import { Message } from "../../../components/Message";
import { SanitizedText } from "../../../components/SanitizedText";
import { Secondary } from "../../../components/Secondary";
import { StateBadge } from "../../../components/StateBadge";
import { countOf } from "../../../lib/numbers";
import { type ShowSpan, sortByRelevance, verdictText } from "./explanation";
import { KeyConstraintCard, PolicyCard } from "./PolicyCard";
import { explainQuery } from "./queries";
import classes from "./why.module.css";

/** Explains why a user sees the trace or not; by default, the signed-in user. */
export function AccessExplanation({
  id,
  user,
  onShowSpan,
}: {
  id: string;
  user: string | null;
  onShowSpan: ShowSpan;
}) {
  const { data, error, isFetching, refetch } = useQuery(explainQuery(id, user));
  if (data !== undefined) {
    return <ExplanationView explanation={data} isOwn={user === null} onShowSpan={onShowSpan} />;
  }
  if (error === null || isFetching) {
    return <Skeleton height={120} aria-label="Loading the explanation" />;
  }
  return <ExplanationError error={error} isOwn={user === null} onRetry={() => void refetch()} />;
}

/** Explains why there is no explanation. */
export function ExplanationError({
  error,
  isOwn,
  onRetry,
}: {
  error: unknown;
  isOwn: boolean;
  onRetry: () => void;
}) {
  if (error instanceof ApiError && error.code === "trace_not_found") {
    return (
      <Alert color="gray" title="There is nothing to explain">
        {isOwn ? (
          "You no longer have access to this trace: a role, a policy or the trace changed after it was loaded. Reload it."
        ) : (
          <>
            No trace with this id is stored, or the service is configured to show administrators nothing about
            traces that they may not read themselves (<code>discovery_samples = false</code>).
          </>
        )}
      </Alert>
    );
  }
  return <ErrorNotice error={error} onRetry={onRetry} />;
}

/** Maximum number of policies that are expanded initially. */
const MAX_EXPANDED = 4;

function ExplanationView({
  explanation,
  isOwn,
  onShowSpan,
}: {
  explanation: Api["AccessExplanation"];
  isOwn: boolean;
  onShowSpan: ShowSpan;
}) {
  const { user, policies, key_constraint: keyConstraint, spans, verdict } = explanation;
  const sortedPolicies = sortByRelevance(policies);
  return (
    <Stack gap="sm">
      <div>
        <StateBadge color={explanation.visible ? "green" : verdict === "broken" ? "red" : "gray"}>
          {verdictText(verdict)}
        </StateBadge>
        <p className={classes.verdict}>
          <Message text={explanation.summary} />
        </p>
        <Text size="xs" c="dimmed" component="div">
          <ExplainedUser user={user} />
          {", "}
          {countOf(spans, "span")} evaluated
        </Text>
      </div>
      {!explanation.details && (
        <Text size="sm" role="note">
          Counts only: you may not read this trace yourself, and its spans are not shown.
        </Text>
      )}
      {keyConstraint !== undefined && <KeyConstraintCard verdict={keyConstraint} onShowSpan={onShowSpan} />}
      {sortedPolicies.map((policy, index) => (
        <PolicyCard
          // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are identified only by their order
          key={`${policy.role} ${index}`}
          verdict={policy}
          initiallyExpanded={
            index < MAX_EXPANDED &&
            (policy.outcome === "satisfied" || !explanation.visible || sortedPolicies.length === 1)
          }
          onShowSpan={onShowSpan}
        />
      ))}
      {policies.length === 0 && (
        <Secondary size="sm">{isOwn ? "You have" : "This user has"} no role with a policy.</Secondary>
      )}
    </Stack>
  );
}

/** The user and the roles, with links to their pages for administrators. */
function ExplainedUser({ user }: { user: Api["ExplainedUser"] }) {
  const me = useMe();
  const isLinked = me.is_admin && user.username !== "";
  const roles = user.roles.map((role, index) => (
    <span key={role}>
      {index > 0 && ", "}
      {me.is_admin ? (
        <PageLink to="/roles/$name" params={{ name: role }} inherit underline="always">
          <SanitizedText text={role} />
        </PageLink>
      ) : (
        <SanitizedText text={role} />
      )}
    </span>
  ));
  return (
    <>
      {isLinked ? (
        <PageLink to="/users/$username" params={{ username: user.username }} inherit underline="always">
          <SanitizedText text={user.username} />
        </PageLink>
      ) : (
        <SanitizedText text={user.username} />
      )}
      {roles.length === 0 ? " without a role" : <> with {roles}</>}
    </>
  );
}
