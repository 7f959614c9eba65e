import { Alert, List, Stack, Text, Title } from "@mantine/core";
import { IconCircleCheck, IconUsers } from "@tabler/icons-react";
import type { Api } from "../../api/client";
import { Message } from "../../components/Message";
import { MessageList } from "../../components/MessageList";
import { Notice } from "../../components/Notice";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { Time } from "../../components/Time";
import { countOf } from "../../lib/numbers";
import { CountsView, costText, ReliabilityNotice, UsersView } from "../roles/ImpactView";
import { namesText as firstOf } from "../roles/listing";
import { changeCounts } from "./changes";
import { ModelChanges } from "./ModelChanges";

/** The plan of a file: blocking problems and losses first. */
export function PlanView({ plan }: { plan: Api["ModelPlan"] }) {
  const { changes, tests, members, people, warnings, notes } = plan;
  if (plan.empty) {
    return (
      <Stack gap="md">
        <Alert color="gray" icon={<IconCircleCheck aria-hidden />} role="status">
          <Text size="sm" c="var(--mantine-color-text)">
            The file is identical to the current version: applying it changes nothing.
          </Text>
        </Alert>
        <TestResults tests={tests} />
      </Stack>
    );
  }
  return (
    <Stack gap="md">
      <Text size="sm" role="status">
        Against the current version {plan.version}: {changeCounts(changes)}.
      </Text>
      <TestResults tests={tests} />
      {people.length > 0 && (
        <Notice kind="info" title="People affected by changed mappings">
          <List size="sm">
            {people.map(({ username, provider, roles_gained, roles_lost, attributes_changed }) => (
              <List.Item key={`${provider} ${username}`}>
                <SanitizedText text={username} />:{" "}
                {[
                  ...roles_gained.map((role) => `gets ${role}`),
                  ...roles_lost.map((role) => `loses ${role}`),
                  ...attributes_changed.map((name) => `another ${name}`),
                ].join(", ")}
              </List.Item>
            ))}
          </List>
        </Notice>
      )}
      {members.length > 0 && (
        <Notice kind="error" icon={<IconUsers aria-hidden />} title="Users lose a role that is removed">
          <List size="sm">
            {members.map(({ role, users, usernames }) => (
              <List.Item key={role} style={{ overflowWrap: "anywhere" }}>
                <b>
                  <SanitizedText text={role} />
                </b>
                : {countOf(users, "user loses it", "users lose it")} (
                <SanitizedText text={firstOf(usernames)} />)
              </List.Item>
            ))}
          </List>
        </Notice>
      )}
      <PlanImpact impact={plan.impact} />
      {notes.length > 0 && <MessageList messages={notes} />}
      <Warnings warnings={warnings} />
      <div>
        <Title order={2} size="h3" mb="xs">
          Differences
        </Title>
        <ModelChanges changes={changes} />
      </div>
    </Stack>
  );
}

function TestResults({ tests }: { tests: Api["ModelPlan"]["tests"] }) {
  if (tests.failed.length > 0) {
    return (
      <Notice
        kind="error"
        title={`${countOf(tests.failed.length, "test fails", "tests fail")}, ${countOf(tests.passed, "test passes", "tests pass")}`}
      >
        <List size="sm">
          {tests.failed.map(({ name, message }) => (
            <List.Item key={`${name} ${message}`} style={{ overflowWrap: "anywhere" }}>
              <SanitizedText text={name} maxLength={200} />: <Message text={message} maxLength={1_000} />
            </List.Item>
          ))}
        </List>
      </Notice>
    );
  }
  return tests.passed === 0 ? null : (
    <Text size="sm">{countOf(tests.passed, "test of the file passes", "tests of the file pass")}.</Text>
  );
}

/** The traces that users gain and lose. */
export function PlanImpact({ impact }: { impact: Api["Impact"] | null }) {
  if (impact === null) {
    return null;
  }
  const { users, sampled, members, members_compared, traces, from, to } = impact;
  return (
    <section aria-label="Impact">
      <Title order={2} size="h3" mb="xs">
        Impact
      </Title>
      <Text size="sm" mb="xs">
        Traces from <Time at={from} digits={0} /> to <Time at={to} digits={0} /> were counted.
      </Text>
      <Stack gap="sm">
        <ReliabilityNotice {...impact} />
        {members > 0 && (
          <UsersView users={users} compared={members_compared} total={members} sampled={sampled} />
        )}
        {traces != null && <CountsView counts={traces} sampled={sampled} />}
        <Secondary size="xs">Counting read {costText(impact.cost)}.</Secondary>
      </Stack>
    </section>
  );
}

function Warnings({ warnings }: { warnings: Api["ModelPlan"]["warnings"] }) {
  if (warnings.length === 0) {
    return null;
  }
  return (
    <Notice kind="warning" title={countOf(warnings.length, "warning")}>
      <List size="sm">
        {warnings.map(({ role, title, line, column, message, hint, code }) => (
          <List.Item key={`${role} ${title} ${code} ${line} ${column}`} style={{ overflowWrap: "anywhere" }}>
            <b>
              <SanitizedText text={`${role} / ${title}`} maxLength={200} />
            </b>
            , {line}:{column}: <Message text={message} />
            {hint != null && (
              <>
                {" "}
                (<Message text={hint} />)
              </>
            )}
          </List.Item>
        ))}
      </List>
    </Notice>
  );
}
