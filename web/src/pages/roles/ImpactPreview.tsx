import { Button, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import type { Api } from "../../api/client";
import { queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import type { Range } from "../search/range";
import { TimeRange } from "../search/TimeRange";
import { Counting } from "./Counting";
import type { DraftPolicy } from "./draft";
import { CountsView, costText, Reliance, UsersView } from "./ImpactView";
import classes from "./impact.module.css";
import { overshareQuery, type PreviewAsked, previewQuery } from "./impactQueries";
import { ByChoice, SECONDS } from "./Overshare";
import { OvershareView } from "./OvershareView";

/** Longer time limit for more exact counts. */
const MORE_SECONDS = 60;

/** Preview of the effects of saving or deleting a role, counted on stored traces. Saving does not wait for it. */
export function ImpactPreview({
  role,
  draft,
}: {
  role: string;
  /** `null` means that the role is deleted. */
  draft: readonly DraftPolicy[] | null;
}) {
  const [range, setRange] = useState<Range>({ kind: "last", text: "24h" });
  const [seconds, setSeconds] = useState(SECONDS);
  const asked: PreviewAsked = { role, draft, range, seconds };
  const options = previewQuery(asked);
  const { data, error, isFetching, refetch } = useQuery(options);
  const heading = useId();
  return (
    <section aria-labelledby={heading}>
      <Group justify="space-between" gap="xs" mb="xs">
        <Title order={2} size="h3" id={heading}>
          Impact
        </Title>
        <TimeRange
          range={range}
          window={data}
          onChange={(next) => {
            setRange(next);
            setSeconds(SECONDS);
          }}
        />
      </Group>
      {isFetching ? (
        <Counting
          what="Counting traces before and after"
          seconds={seconds}
          onStop={() => void queryClient.cancelQueries({ queryKey: options.queryKey })}
        />
      ) : error !== null ? (
        <ErrorNotice error={error} title="The impact could not be counted" onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Group gap="sm">
          <Text size="sm">Stopped: the impact is not known.</Text>
          <Button size="compact-sm" variant="default" onClick={() => void refetch()}>
            Count
          </Button>
        </Group>
      ) : (
        <Answer
          answer={data}
          asked={asked}
          onLonger={data.sampled && seconds < MORE_SECONDS ? () => setSeconds(MORE_SECONDS) : null}
        />
      )}
    </section>
  );
}

function Answer({
  answer,
  asked,
  onLonger,
}: {
  answer: Api["PolicyPreview"];
  asked: PreviewAsked;
  onLonger: (() => void) | null;
}) {
  const { members, members_compared, sampled, users } = answer;
  return (
    <Stack gap="md">
      <Reliance
        {...answer}
        action={
          onLonger !== null && (
            <Button size="compact-sm" variant="default" mt="xs" onClick={onLonger}>
              Count for up to {MORE_SECONDS} seconds
            </Button>
          )
        }
      />
      {members > 0 && (
        <div>
          <Title order={3} mb={4}>
            Members, with all their roles
          </Title>
          <UsersView users={users} compared={members_compared} total={members} sampled={sampled} />
        </div>
      )}
      {answer.traces !== null && (
        <div>
          <Title order={3} mb={4}>
            Role in isolation
          </Title>
          <Text size="sm" c="var(--tw-quiet)" mb="xs">
            {members === 0
              ? "Traces that the role grants to a user with only this role and no attributes."
              : "Traces that the role grants to any of its members."}
          </Text>
          <CountsView counts={answer.traces} sampled={sampled} />
        </div>
      )}
      {answer.overshare != null && asked.draft !== null && <Shared first={answer.overshare} asked={asked} />}
      <div>
        <Title order={3} mb={4}>
          Cost
        </Title>
        <dl className={classes.cost}>
          {answer.search.before != null && (
            <>
              <dt>First page of a search, before</dt>
              <dd>{costText(answer.search.before)}</dd>
            </>
          )}
          {answer.search.after != null && (
            <>
              <dt>First page of a search, after</dt>
              <dd>{costText(answer.search.after)}</dd>
            </>
          )}
          <dt>This preview</dt>
          <dd>{costText(answer.cost)}</dd>
        </dl>
      </div>
    </Stack>
  );
}

/** Collateral access of the draft. The preview includes it by service; other fields are counted on selection. */
function Shared({ first, asked }: { first: Api["Overshare"]; asked: PreviewAsked }) {
  const [by, setBy] = useState<string | null>(null);
  const other = by !== null && by !== first.by;
  const { role, draft, range, seconds } = asked;
  const options = overshareQuery({ role, draft, by, range, seconds });
  const { data, error, isFetching, refetch } = useQuery({ ...options, enabled: other });
  return (
    <div>
      <Title order={3} mb={4}>
        Collateral access
      </Title>
      <Stack gap="xs">
        <ByChoice by={by ?? first.by} onChange={setBy} />
        {!other ? (
          <OvershareView answer={first} cost={false} />
        ) : isFetching ? (
          <Counting
            what="Counting"
            seconds={seconds}
            onStop={() => void queryClient.cancelQueries({ queryKey: options.queryKey })}
          />
        ) : error !== null ? (
          <ErrorNotice
            error={error}
            title="The collateral access could not be counted"
            onRetry={() => void refetch()}
          />
        ) : data === undefined ? (
          <Button
            size="compact-sm"
            variant="default"
            style={{ alignSelf: "start" }}
            onClick={() => void refetch()}
          >
            Count
          </Button>
        ) : (
          <OvershareView answer={data} />
        )}
      </Stack>
    </div>
  );
}
