import { Button, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { ApiError } from "../../api/client";
import { filterSchemaQuery, queryClient, rolesQuery } from "../../api/queries";
import { AdminOnly } from "../../components/AdminOnly";
import { Breadcrumb } from "../../components/Breadcrumb";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { SanitizedText } from "../../components/SanitizedText";
import { Section } from "../../components/Section";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { policyFields } from "../../editor/vocabulary";
import { type DraftPolicy, newPolicy, validateRoleName } from "./draft";
import { saveErrorsOf } from "./PolicyCard";
import { PolicyList } from "./PolicyList";
import { PolicyTrial } from "./PolicyTrial";
import { saveRole } from "./queries";
import { Review } from "./Review";
import classes from "./roles.module.css";
import { SaveBar } from "./SaveBar";
import { templatesOf } from "./templates";
import { useReview } from "./useReview";

const NO_MEMBERS: string[] = [];
const NO_POLICIES: DraftPolicy[] = [];

/** A new, unsaved role. */
export function NewRolePage() {
  return (
    <AdminOnly>
      <Breadcrumb parent="/roles" current="New role" />
      <PageTitle title="New role" />
      <NewRole />
    </AdminOnly>
  );
}

function NewRole() {
  const [name, setName] = useState("");
  const [reviewRequested, setReviewRequested] = useState(false);
  const [draft, setDraft] = useState<readonly DraftPolicy[]>([]);
  const roles = useQuery(rolesQuery);
  const review = useReview(false);
  const navigate = useNavigate();
  const isNameTaken = roles.data?.roles.some((role) => role.name === name) ?? false;
  const invalidName = validateRoleName(name);
  const save = useMutation({
    mutationFn: async () => {
      // A save without a version replaces an existing role, so that the name is checked again before.
      const { roles } = await queryClient.fetchQuery({ ...rolesQuery, staleTime: 0 });
      if (roles.some((role) => role.name === name)) {
        throw new Error(`Another user created a role ${name} in the meantime. Choose another name.`);
      }
      return saveRole(name, draft, null);
    },
    onSuccess: () => navigate({ to: "/roles/$name", params: { name }, ignoreBlocker: true }),
    onSettled: review.close,
  });
  const saveErrors = useMemo(() => saveErrorsOf(save.error, draft.length), [save.error, draft.length]);
  const nameError = (name !== "" || reviewRequested) && invalidName !== null ? invalidName : null;
  const validationError =
    nameError === null && !isNameTaken ? review.validationError : "The role needs another name.";
  return (
    <Stack gap="md">
      <UnsavedChangesPrompt when={(name !== "" || draft.length > 0) && !save.isSuccess} />
      <div className={classes.formRow}>
        <TextInput
          className={classes.grow ?? ""}
          label="Name"
          description="1 to 64 of A-Z, a-z, 0-9, dot, underscore and hyphen. It cannot be changed later."
          required
          autoComplete="off"
          spellCheck={false}
          autoFocus
          maw={520}
          value={name}
          error={
            isNameTaken ? (
              <>
                This role already exists:{" "}
                <PageLink to="/roles/$name" params={{ name }} inherit underline="always">
                  {name}
                </PageLink>
              </>
            ) : (
              nameError
            )
          }
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </div>
      {save.isError && (
        <ErrorNotice
          error={save.error}
          {...(save.error instanceof ApiError ? {} : { title: "The role was not created" })}
        />
      )}
      <TemplateList
        onChoose={({ title, description, expression }) =>
          setDraft([...draft, newPolicy({ title, description, expression })])
        }
      />
      <PolicyList
        draft={draft}
        onChange={(next) => {
          review.clearError();
          setDraft(next);
        }}
        saveErrors={saveErrors}
      />
      {draft.length > 0 && <PolicyTrial name={name} draft={draft} members={NO_MEMBERS} />}
      <SaveBar
        validationError={(reviewRequested ? validationError : null) ?? review.validationError}
        onReview={async () => {
          setReviewRequested(true);
          if (invalidName === null && !isNameTaken) {
            await review.open(draft);
          }
        }}
      />
      {review.opened && (
        <Review
          name={name}
          before={NO_POLICIES}
          after={draft}
          members={NO_MEMBERS}
          busy={save.isPending}
          onSave={() => save.mutate()}
          onClose={review.close}
        />
      )}
    </Stack>
  );
}

/** Common policies for a first role, from the defined fields. */
function TemplateList({
  onChoose,
}: {
  onChoose: (template: ReturnType<typeof templatesOf>[number]) => void;
}) {
  const schema = useQuery(filterSchemaQuery);
  const fields = policyFields(schema.data?.fields ?? []);
  const templates = templatesOf(fields);
  if (schema.data === undefined) {
    return null;
  }
  if (fields.length === 0) {
    return (
      <Section title="No fields for policies yet">
        <Text size="sm">
          No field is usable in policies.{" "}
          <PageLink to="/source" inherit underline="always">
            Mark some under Trace source
          </PageLink>{" "}
          first, such as the service or the team.
        </Text>
      </Section>
    );
  }
  if (templates.length === 0) {
    return null;
  }
  return (
    <Section title="Start from a template" description="Each adds a policy that you can change.">
      <ul className={classes.templates} aria-label="Templates">
        {templates.map((template) => (
          <li key={template.expression}>
            <Button
              variant="default"
              h="auto"
              className={classes.template ?? ""}
              onClick={() => onChoose(template)}
            >
              <span>
                <SanitizedText text={template.title} maxLength={100} />
                <code>
                  <SanitizedText text={template.expression} maxLength={160} />
                </code>
              </span>
            </Button>
          </li>
        ))}
      </ul>
    </Section>
  );
}
