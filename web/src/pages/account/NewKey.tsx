import { Button, Checkbox, Code, Group, Modal, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Api, ApiError, api, ask } from "../../api/client";
import { queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PolicyEditor } from "../../editor/PolicyEditor";
import { refusals } from "../../editor/remarks";
import { EXPIRIES, type Expiry, expiryOf } from "./expiry";
import { NewToken } from "./NewToken";
import { myKeysQuery } from "./queries";
import { TOOLS } from "./tools";

const NONE: readonly Api["Diagnostic"][] = [];

/** Creates an API key and shows its token once. */
export function NewKey({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [made, setMade] = useState<Api["CreatedApiKey"] | null>(null);
  const [dirty, setDirty] = useState(false);
  const done = () => {
    setMade(null);
    setDirty(false);
    onClose();
  };
  const cancel = () => {
    setDirty(false);
    onClose();
  };
  return (
    <Modal
      opened={opened}
      onClose={made === null ? cancel : done}
      title={made === null ? "Create an API key" : "The key was created"}
      size="lg"
      // A token that is shown only once must not be lost by an accidental click or key press.
      closeOnClickOutside={made === null && !dirty}
      closeOnEscape={made === null && !dirty}
      withCloseButton={made === null}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {made === null ? (
        <KeyForm onMade={setMade} onCancel={cancel} onTyped={() => setDirty(true)} />
      ) : (
        <NewToken made={made} onDone={done} />
      )}
    </Modal>
  );
}

function KeyForm({
  onMade,
  onCancel,
  onTyped,
}: {
  onMade: (made: Api["CreatedApiKey"]) => void;
  onCancel: () => void;
  onTyped: () => void;
}) {
  const [name, setName] = useState("");
  const [expiry, setExpiry] = useState<Expiry>("90");
  const [date, setDate] = useState("");
  const [restricted, setRestricted] = useState(false);
  const [policy, setPolicy] = useState("");
  const [toolsOnly, setToolsOnly] = useState(false);
  const [tools, setTools] = useState<string[]>(TOOLS.map((tool) => tool.name));
  const [strict, setStrict] = useState(false);
  const create = useMutation({
    mutationFn: (body: Api["NewApiKey"]) => ask(api.POST("/me/api-keys", { body })),
    onSuccess: (key) => {
      onMade(key);
      void queryClient.invalidateQueries({ queryKey: myKeysQuery.queryKey });
    },
  });
  const expires = expiryOf(expiry, date, new Date());
  const noPolicy = restricted && policy.trim() === "";
  const noTools = toolsOnly && tools.length === 0;
  const diagnostics = useMemo(
    () => (create.error instanceof ApiError ? refusals(create.error.problem, "/policy") : NONE),
    [create.error],
  );
  return (
    <form
      onChange={onTyped}
      onSubmit={(event) => {
        event.preventDefault();
        setStrict(true);
        if (!("problem" in expires) && !noPolicy && !noTools) {
          create.mutate({
            name: name.trim(),
            ...(expires.at === null ? {} : { expires_at: expires.at }),
            ...(restricted ? { policy } : {}),
            ...(toolsOnly ? { tools } : {}),
          });
        }
      }}
    >
      <Stack gap="md">
        <Text size="sm">The key has your access at the time of each request.</Text>
        <TextInput
          label="Name"
          description="Its purpose, to know later whether it is still needed"
          placeholder="nightly report"
          required
          withAsterisk={false}
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
            data={EXPIRIES}
            value={expiry}
            onChange={(value) => {
              const chosen = EXPIRIES.find((one) => one.value === value);
              if (chosen !== undefined) {
                setExpiry(chosen.value);
              }
            }}
          />
          {expiry === "date" && (
            <TextInput
              label="On"
              description="At the end of that day"
              inputWrapperOrder={["label", "input", "description", "error"]}
              type="date"
              w={180}
              value={date}
              error={strict && "problem" in expires ? expires.problem : null}
              onChange={(event) => setDate(event.currentTarget.value)}
            />
          )}
        </Group>
        <Switch
          label="Restrict the key to some of my traces"
          checked={restricted}
          onChange={(event) => setRestricted(event.currentTarget.checked)}
        />
        {restricted && (
          <div>
            <PolicyEditor
              label="Key constraint"
              description="A trace must satisfy it in addition to a policy of your roles, with the same span or another."
              value={policy}
              onChange={(text) => {
                setPolicy(text);
                onTyped();
              }}
              diagnostics={diagnostics}
            />
            {strict && noPolicy && (
              <Text size="xs" c="var(--tw-error)" role="alert">
                Enter an expression, or turn the constraint off
              </Text>
            )}
          </div>
        )}
        <Switch
          label="Restrict the key to some tools"
          checked={toolsOnly}
          onChange={(event) => setToolsOnly(event.currentTarget.checked)}
        />
        {toolsOnly && (
          <Checkbox.Group
            label="Tools"
            description="For REST and MCP, unless noted otherwise."
            value={tools}
            onChange={setTools}
            error={noTools ? "Choose at least one, or turn this constraint off" : null}
          >
            <Stack gap={6} mt={6}>
              {TOOLS.map((tool) => (
                <Checkbox
                  key={tool.name}
                  value={tool.name}
                  label={
                    <>
                      <Code>{tool.name}</Code> {tool.about}
                      {!tool.rest && " (MCP only)"}
                    </>
                  }
                />
              ))}
            </Stack>
          </Checkbox.Group>
        )}
        {(restricted || toolsOnly) && (
          <Text size="sm" c="var(--tw-quiet)">
            A scoped API key has no administrator access, even if its owner is an administrator.
          </Text>
        )}
        {create.isError && <ErrorNotice error={create.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onCancel}>
            Cancel
          </Button>
          <Button type="submit" loading={create.isPending}>
            Create key
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
