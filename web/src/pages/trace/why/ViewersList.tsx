import { Alert, Button, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Api } from "../../../api/client";
import { PageLink } from "../../../components/links";
import { SanitizedText } from "../../../components/SanitizedText";
import { Secondary } from "../../../components/Secondary";
import { sanitize } from "../../../lib/sanitize";
import { ExplanationError } from "./AccessExplanation";
import { viewersText } from "./explanation";
import { viewersQuery } from "./queries";
import classes from "./why.module.css";

/** Number of users per step. */
const PAGE_SIZE = 50;

/** Users who can see the trace, each with the policies that grant access. */
export function ViewersList({ id, onExplain }: { id: string; onExplain: (username: string) => void }) {
  const { data, error, isFetching, refetch } = useQuery(viewersQuery(id));
  const [limit, setLimit] = useState(PAGE_SIZE);
  if (data === undefined) {
    return error === null || isFetching ? (
      <Skeleton height={120} aria-label="Loading the users who can see it" />
    ) : (
      <ExplanationError error={error} isOwn={false} onRetry={() => void refetch()} />
    );
  }
  return (
    <Stack gap="xs">
      <Text size="sm" fw={600}>
        {viewersText(data)}
      </Text>
      <Secondary size="xs">
        Enabled accounts only, with their current roles and attributes.
        {data.changed_meanwhile &&
          " Users, roles or the access model changed while this list was created: reload it to be sure."}
      </Secondary>
      {data.broken.length > 0 && (
        <Alert color="orange" title="Users without access because a policy is broken">
          <ul className={classes.spans}>
            {data.broken.map(({ username, role, title }) => (
              <li key={`${username} ${role} ${title}`}>
                <SanitizedText text={username} />: <SanitizedText text={role} /> /{" "}
                <SanitizedText text={title} />
              </li>
            ))}
          </ul>
        </Alert>
      )}
      <LaterViewers
        title="Users who will have access after they change their password"
        usernames={data.must_change_password}
        limit={limit}
      />
      <LaterViewers
        title="Suspended: sessions and API keys are rejected until the user signs in again, or the owner has the role again"
        usernames={data.suspended}
        limit={limit}
      />
      <ul className={classes.viewers} aria-label="Users who can see this trace">
        {data.viewers.slice(0, limit).map((viewer) => (
          <ViewerItem key={viewer.username} viewer={viewer} onExplain={onExplain} />
        ))}
      </ul>
      {limit < data.viewers.length && (
        <Button size="xs" variant="default" onClick={() => setLimit(limit + PAGE_SIZE)}>
          Show {Math.min(PAGE_SIZE, data.viewers.length - limit)} more
        </Button>
      )}
    </Stack>
  );
}

function LaterViewers({
  title,
  usernames,
  limit,
}: {
  title: string;
  usernames: readonly string[];
  limit: number;
}) {
  if (usernames.length === 0) {
    return null;
  }
  return (
    <Alert color="blue" title={title}>
      <ul className={classes.spans}>
        {usernames.slice(0, limit).map((username) => (
          <li key={username}>
            <SanitizedText text={username} />
          </li>
        ))}
        {limit < usernames.length && <li>and {(usernames.length - limit).toLocaleString("en")} more</li>}
      </ul>
    </Alert>
  );
}

function ViewerItem({ viewer, onExplain }: { viewer: Api["Viewer"]; onExplain: (username: string) => void }) {
  const { username, policies } = viewer;
  return (
    <li>
      <div className={classes.viewer}>
        <PageLink to="/users/$username" params={{ username }} inherit fw={600}>
          <SanitizedText text={username} />
        </PageLink>
        {policies.map(({ role, title }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are identified only by their order
          <div key={`${role} ${index}`} className={classes.secondary}>
            <SanitizedText text={role} maxLength={60} /> / <SanitizedText text={title} maxLength={120} />
          </div>
        ))}
      </div>
      <Button
        size="compact-xs"
        variant="subtle"
        aria-label={`Explain for ${sanitize(username)}`}
        onClick={() => onExplain(username)}
      >
        Explain
      </Button>
    </li>
  );
}
