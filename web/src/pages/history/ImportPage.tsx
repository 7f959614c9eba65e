import { Button, FileButton, Group, Stack, Text, Textarea } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconFileUpload } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type DragEvent, type ReactNode, useRef, useState } from "react";
import { AdminOnly } from "../../components/AdminOnly";
import { Breadcrumb } from "../../components/Breadcrumb";
import { PageTitle } from "../../components/PageTitle";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { Section } from "../../components/Section";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { formatBytes } from "../../lib/numbers";
import { contentTypeOf, MAX_BYTES, type ModelFile } from "./changes";
import classes from "./history.module.css";
import { PlanAndApply } from "./PlanAndApply";
import { importModel } from "./queries";

/** Longer texts cannot be edited on the page. */
const MAX_EDITABLE_LENGTH = 200_000;

let fileCount = 0;

/** Import of an access model from a file: shows the plan and applies it. */
export function ImportPage() {
  return (
    <AdminOnly>
      <Breadcrumb parent="/history" current="Import model" />
      <PageTitle title="Import model" />
      <ImportForm />
    </AdminOnly>
  );
}

function ImportForm() {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const [fileError, setFileError] = useState<string | null>(null);
  const [plannedFile, setPlannedFile] = useState<ModelFile | null>(null);
  const [isApplied, setIsApplied] = useState(false);
  const navigate = useNavigate();
  const resetInput = useRef<() => void>(null);
  const changeText = (newText: string) => {
    setText(newText);
    setPlannedFile(null);
  };
  const plan = (name: string, text: string) => {
    fileCount += 1;
    setPlannedFile({ id: `file ${fileCount}`, text, type: contentTypeOf(name, text) });
  };
  const readFile = async (file: File | null | undefined) => {
    // Resets the input, so that the same file can be selected again after a change.
    resetInput.current?.();
    if (file === null || file === undefined) {
      return;
    }
    setFileError(null);
    if (file.size > MAX_BYTES) {
      setFileError(
        `The file has ${formatBytes(file.size)}; at most ${formatBytes(MAX_BYTES)} can be imported.`,
      );
      return;
    }
    try {
      const content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      setName(file.name);
      changeText(content);
      plan(file.name, content);
    } catch {
      setFileError("The file could not be read, or is not UTF-8 text.");
    }
  };
  return (
    <Stack gap="md">
      <UnsavedChangesPrompt when={text !== "" && !isApplied} />
      <Section
        title="File"
        description="The whole access model in YAML or JSON, as downloaded from the model history. Roles, policies and marked fields that are not in the file are removed."
      >
        <DropZone onFile={(file) => void readFile(file)}>
          <Group gap="sm">
            <FileButton
              resetRef={resetInput}
              accept=".yaml,.yml,.json,application/yaml,application/json"
              onChange={(file) => void readFile(file)}
            >
              {(props) => (
                <Button {...props} variant="default" leftSection={<IconFileUpload size={16} aria-hidden />}>
                  Choose a file
                </Button>
              )}
            </FileButton>
            <Secondary size="sm">
              {name === "" ? (
                "or drop it here, or paste its text below"
              ) : (
                <SanitizedText text={`${name}, ${formatBytes(new Blob([text]).size)}`} maxLength={200} />
              )}
            </Secondary>
          </Group>
        </DropZone>
        {fileError !== null && (
          <Text size="sm" c="var(--tw-error)" role="alert" mt="xs">
            {fileError}
          </Text>
        )}
        {text.length <= MAX_EDITABLE_LENGTH && (
          <Textarea
            mt="sm"
            label="Text of the file"
            autosize
            minRows={4}
            maxRows={16}
            spellCheck={false}
            autoComplete="off"
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
            value={text}
            onChange={(event) => changeText(event.currentTarget.value)}
          />
        )}
        <Group justify="flex-end" mt="sm">
          <Button variant="light" disabled={text.trim() === ""} onClick={() => plan(name, text)}>
            Compare with the current version
          </Button>
        </Group>
      </Section>
      {plannedFile !== null && (
        <Section title="Planned changes">
          <PlanAndApply
            key={plannedFile.id}
            file={plannedFile}
            label="Import"
            testsMustPass
            apply={(baseVersion) => importModel(plannedFile, baseVersion)}
            onApplied={({ version, warnings }) => {
              setIsApplied(true);
              notifications.show({
                color: warnings.length === 0 ? "green" : "yellow",
                message: `The model was imported as version ${version}.`,
              });
              void navigate({
                to: "/history/$version",
                params: { version: String(version) },
                ignoreBlocker: true,
              });
            }}
            onClose={undefined}
          />
        </Section>
      )}
    </Stack>
  );
}

function DropZone({ onFile, children }: { onFile: (file: File | undefined) => void; children: ReactNode }) {
  const [isDragOver, setIsDragOver] = useState(false);
  const handleDrag = (event: DragEvent) => {
    // Otherwise the browser opens the file instead of the page.
    event.preventDefault();
    setIsDragOver(event.type === "dragover");
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button in it does the same by keyboard
    <div
      className={classes.dropZone}
      data-drag-over={isDragOver}
      onDragOver={handleDrag}
      onDragLeave={handleDrag}
      onDrop={(event) => {
        handleDrag(event);
        onFile(event.dataTransfer.files[0]);
      }}
    >
      {children}
    </div>
  );
}
