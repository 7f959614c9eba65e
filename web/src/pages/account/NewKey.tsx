import { Checkbox, Code, Group, Modal, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Api, ApiError, api, unwrap } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Secondary } from "../../components/Secondary";
import { SubmitButtons } from "../../components/SubmitButtons";
import { diagnosticsAt } from "../../editor/diagnostics";
import { PolicyEditor } from "../../editor/PolicyEditor";
import { EXPIRIES, type Expiry, expiryOf } from "./expiry";
import { NewToken } from "./NewToken";
import { TOOLS } from "./tools";

const NO_DIAGNOSTICS: readonly Api["Diagnostic"][] = [];

type Props = {
  /** Name of the service account that the key is for; absent for the signed-in user. */
  serviceAccount?: string;
  onCreated: () => void;
};

/** Creates an API key and shows its token once. */
export function NewKey({ opened, onClose, ...props }: Props & { opened: boolean; onClose: () => void }) {
  const [createdKey, setCreatedKey] = useState<Api["CreatedApiKey"] | null>(null);
  const [isDirty, setIsDirty] = useState(false);
  const finish = () => {
    setCreatedKey(null);
    setIsDirty(false);
    onClose();
  };
  const cancel = () => {
    setIsDirty(false);
    onClose();
  };
  return (
    <Modal
      opened={opened}
      onClose={createdKey === null ? cancel : finish}
      title={createdKey === null ? "Create an API key" : "The key was created"}
      size="lg"
      // A token that is shown only once must not be lost by an accidental click or key press.
      closeOnClickOutside={createdKey === null && !isDirty}
      closeOnEscape={createdKey === null && !isDirty}
      withCloseButton={createdKey === null}
    >
      {createdKey === null ? (
        <KeyForm
          serviceAccount={props.serviceAccount}
          onCreated={(key) => {
            setCreatedKey(key);
            props.onCreated();
          }}
          onCancel={cancel}
          onInput={() => setIsDirty(true)}
        />
      ) : (
        <NewToken createdKey={createdKey} onDone={finish} />
      )}
    </Modal>
  );
}

function KeyForm({
  serviceAccount,
  onCreated,
  onCancel,
  onInput,
}: {
  serviceAccount: string | undefined;
  onCreated: (key: Api["CreatedApiKey"]) => void;
  onCancel: () => void;
  onInput: () => void;
}) {
  const [name, setName] = useState("");
  const [expiry, setExpiry] = useState<Expiry>("90");
  const [date, setDate] = useState("");
  const [hasPolicy, setHasPolicy] = useState(false);
  const [policy, setPolicy] = useState("");
  const [limitsTools, setLimitsTools] = useState(false);
  const [tools, setTools] = useState<string[]>(TOOLS.map((tool) => tool.name));
  const [showErrors, setShowErrors] = useState(false);
  const create = useMutation({
    mutationFn: (body: Api["NewApiKey"]) =>
      unwrap(
        serviceAccount === undefined
          ? api.POST("/me/api-keys", { body })
          : api.POST("/users/{username}/api-keys", { params: { path: { username: serviceAccount } }, body }),
      ),
    onSuccess: onCreated,
  });
  const expiryResult = expiryOf(expiry, date, new Date());
  const policyMissing = hasPolicy && policy.trim() === "";
  const toolsMissing = limitsTools && tools.length === 0;
  const diagnostics = useMemo(
    () =>
      create.error instanceof ApiError ? diagnosticsAt(create.error.problem, "/policy") : NO_DIAGNOSTICS,
    [create.error],
  );
  return (
    <form
      onChange={onInput}
      onSubmit={(event) => {
        event.preventDefault();
        setShowErrors(true);
        if (!("error" in expiryResult) && !policyMissing && !toolsMissing) {
          create.mutate({
            name: name.trim(),
            ...(expiryResult.at === null ? {} : { expires_at: expiryResult.at }),
            ...(hasPolicy ? { policy } : {}),
            ...(limitsTools ? { tools } : {}),
          });
        }
      }}
    >
      <Stack gap="md">
        <Text size="sm">
          The key has {serviceAccount === undefined ? "your" : "the account's"} access at the time of each
          request.
        </Text>
        <TextInput
          label="Name"
          description="What the key is used for"
          placeholder="nightly report"
          required
          maxLength={100}
          autoComplete="off"
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Group gap="sm" align="flex-start">
          <Select
            label="Expires"
            w={180}
            allowDeselect={false}
            data={serviceAccount === undefined ? EXPIRIES : EXPIRIES.filter(({ value }) => value !== "never")}
            value={expiry}
            onChange={(value) => value !== null && setExpiry(value)}
          />
          {expiry === "date" && (
            <TextInput
              label="On"
              description="At the end of that day"
              inputWrapperOrder={["label", "input", "description", "error"]}
              type="date"
              w={180}
              value={date}
              error={showErrors && "error" in expiryResult ? expiryResult.error : null}
              onChange={(event) => setDate(event.currentTarget.value)}
            />
          )}
        </Group>
        <Switch
          label={`Restrict the key to some of ${serviceAccount === undefined ? "my" : "these"} traces`}
          checked={hasPolicy}
          onChange={(event) => setHasPolicy(event.currentTarget.checked)}
        />
        {hasPolicy && (
          <div>
            <PolicyEditor
              label="Key constraint"
              description="A trace must satisfy it in addition to a policy of the roles, with the same span or another."
              value={policy}
              onChange={(text) => {
                setPolicy(text);
                onInput();
              }}
              diagnostics={diagnostics}
            />
            {showErrors && policyMissing && (
              <Text size="xs" c="var(--tw-error)" role="alert">
                Enter an expression, or turn the constraint off
              </Text>
            )}
          </div>
        )}
        <Switch
          label="Restrict the key to some tools"
          checked={limitsTools}
          onChange={(event) => setLimitsTools(event.currentTarget.checked)}
        />
        {limitsTools && (
          <Checkbox.Group
            label="Tools"
            description="For REST and MCP, unless noted otherwise."
            value={tools}
            onChange={setTools}
            error={toolsMissing ? "Choose at least one, or turn this constraint off" : null}
          >
            <Stack gap={6} mt={6}>
              {TOOLS.map((tool) => (
                <Checkbox
                  key={tool.name}
                  value={tool.name}
                  label={
                    <>
                      <Code>{tool.name}</Code> {tool.description}
                      {!tool.rest && " (MCP only)"}
                    </>
                  }
                />
              ))}
            </Stack>
          </Checkbox.Group>
        )}
        {(hasPolicy || limitsTools) && (
          <Secondary size="sm">
            A scoped API key has no administrator access, even if its owner is an administrator.
          </Secondary>
        )}
        {create.isError && <ErrorNotice error={create.error} />}
        <SubmitButtons label="Create key" busy={create.isPending} onCancel={onCancel} />
      </Stack>
    </form>
  );
}
