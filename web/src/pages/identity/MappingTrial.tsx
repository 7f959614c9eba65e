import { Button, Code, List, Stack, Text, Textarea, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, api, unwrap } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { RoleBadges } from "../../components/RoleBadges";
import { SanitizedText } from "../../components/SanitizedText";
import { valueText } from "../users/attributes";
import { parseClaims } from "./mapping";

/** Tries a mapping on pasted claims, before it is saved. */
export function MappingTrial({ provider, mapping }: { provider: string; mapping: Api["ClaimsMapping"] }) {
  const [text, setText] = useState("");
  const claims = text.trim() === "" ? null : parseClaims(text);
  const trial = useMutation({
    mutationFn: (claims: Record<string, unknown>) =>
      unwrap(
        api.POST("/identity/providers/{provider}/evaluate", {
          params: { path: { provider } },
          body: { claims: claims as Record<string, never>, mapping },
        }),
      ),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (claims !== null && typeof claims !== "string") {
          trial.mutate(claims);
        }
      }}
    >
      <Stack gap="xs">
        <Title order={3}>Test</Title>
        <Textarea
          label="Claims of a person"
          description="The payload of an ID token as JSON, or the whole token, which is not verified here and not stored"
          placeholder={'{ "sub": "1", "groups": ["/payments"] }'}
          autosize
          minRows={3}
          maxRows={16}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          error={typeof claims === "string" ? claims : null}
        />
        <div>
          <Button
            type="submit"
            size="xs"
            variant="default"
            loading={trial.isPending}
            disabled={claims === null || typeof claims === "string"}
          >
            Run test
          </Button>
        </div>
        {trial.isError && <ErrorNotice error={trial.error} />}
        {trial.isSuccess && <Outcome outcome={trial.data} />}
      </Stack>
    </form>
  );
}

function Outcome({ outcome }: { outcome: Api["MappingEvaluation"] }) {
  const attributes = Object.entries(outcome.attributes);
  return (
    <Stack gap="xs" role="status">
      {outcome.roles.length === 0 ? (
        <Text size="sm">
          No role. A new person cannot sign in; an existing user can if an administrator assigned a role.
        </Text>
      ) : (
        <div>
          Roles: <RoleBadges roles={outcome.roles} />
        </div>
      )}
      {attributes.map(([name, value]) => (
        <div key={name}>
          <Code>
            <SanitizedText text={name} />
          </Code>{" "}
          <SanitizedText text={valueText(value)} maxLength={500} />
        </div>
      ))}
      {outcome.unmapped.length > 0 && (
        <>
          <Text size="sm">Expressions without a result:</Text>
          <List size="sm">
            {outcome.unmapped.map(({ pointer, absent_claims: absent }) => (
              <List.Item key={pointer}>
                <Code>
                  <SanitizedText text={pointer} />
                </Code>{" "}
                {absent.length === 0 ? (
                  "a claim has another type than the expression needs, or the result is too large"
                ) : (
                  <>
                    absent: <SanitizedText text={absent.join(", ")} />
                  </>
                )}
              </List.Item>
            ))}
          </List>
        </>
      )}
    </Stack>
  );
}
