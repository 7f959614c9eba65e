import { Alert, Button, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Api } from "../../../api/client";
import { PageLink } from "../../../components/links";
import { Visible } from "../../../components/Visible";
import { visible } from "../../../lib/visible";
import { NotExplained } from "./Explained";
import { viewersText } from "./explanation";
import { viewersQuery } from "./queries";
import classes from "./why.module.css";

/** Number of users per step. */
const SOME = 50;

/** Users who can see the trace, each with the policies that grant access. */
export function ViewersList({ id, onExplain }: { id: string; onExplain: (username: string) => void }) {
  const { data, error, isFetching, refetch } = useQuery(viewersQuery(id));
  const [shown, setShown] = useState(SOME);
  if (data === undefined) {
    return error === null || isFetching ? (
      <Skeleton height={120} aria-label="Loading the users who can see it" />
    ) : (
      <NotExplained error={error} own={false} onRetry={() => void refetch()} />
    );
  }
  return (
    <Stack gap="xs">
      <Text size="sm" fw={600}>
        {viewersText(data)}
      </Text>
      <Text size="xs" c="var(--tw-quiet)">
        Enabled accounts only, with their current roles and attributes.
        {data.changed_meanwhile &&
          " Users, roles or the access model changed while this list was created: reload it to be sure."}
      </Text>
      {data.broken.length > 0 && (
        <Alert color="orange" variant="light" title="Users without access because a policy is broken">
          <ul className={classes.spans}>
            {data.broken.map(({ username, role, title }) => (
              <li key={`${username} ${role} ${title}`}>
                <Visible text={username} />: <Visible text={role} /> / <Visible text={title} />
              </li>
            ))}
          </ul>
        </Alert>
      )}
      {data.must_change_password.length > 0 && (
        <Alert
          color="blue"
          variant="light"
          title="Users who will have access after they change their password"
        >
          <ul className={classes.spans}>
            {data.must_change_password.slice(0, shown).map((username) => (
              <li key={username}>
                <Visible text={username} />
              </li>
            ))}
            {shown < data.must_change_password.length && (
              <li>and {(data.must_change_password.length - shown).toLocaleString("en")} more</li>
            )}
          </ul>
        </Alert>
      )}
      <ul className={classes.viewers} aria-label="Users who can see this trace">
        {data.viewers.slice(0, shown).map((viewer) => (
          <OneViewer key={viewer.username} viewer={viewer} onExplain={onExplain} />
        ))}
      </ul>
      {shown < data.viewers.length && (
        <Button size="xs" variant="default" onClick={() => setShown(shown + SOME)}>
          Show {Math.min(SOME, data.viewers.length - shown)} more
        </Button>
      )}
    </Stack>
  );
}

function OneViewer({ viewer, onExplain }: { viewer: Api["Viewer"]; onExplain: (username: string) => void }) {
  const { username, policies } = viewer;
  return (
    <li>
      <div className={classes.viewer}>
        <PageLink to="/users/$username" params={{ username }} inherit fw={600}>
          <Visible text={username} />
        </PageLink>
        {policies.map(({ role, title }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are identified only by their order
          <div key={`${role} ${place}`} className={classes.quiet}>
            <Visible text={role} most={60} /> / <Visible text={title} most={120} />
          </div>
        ))}
      </div>
      <Button
        size="compact-xs"
        variant="subtle"
        aria-label={`Explain for ${visible(username)}`}
        onClick={() => onExplain(username)}
      >
        Explain
      </Button>
    </li>
  );
}
