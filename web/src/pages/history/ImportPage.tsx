import { Anchor, Breadcrumbs, Button, FileButton, Group, Stack, Text, Textarea } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconFileUpload } from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { type DragEvent, type ReactNode, useRef, useState } from "react";
import { AdminOnly } from "../../components/AdminOnly";
import { PageTitle } from "../../components/PageTitle";
import { Section } from "../../components/Section";
import { UnsavedChanges } from "../../components/UnsavedChanges";
import { Visible } from "../../components/Visible";
import { formatBytes } from "../source/numbers";
import { MOST_BYTES, type ModelFile, typeOf } from "./changes";
import classes from "./history.module.css";
import { PlanAndApply } from "./PlanAndApply";
import { importModel } from "./queries";

/** Longer texts cannot be edited on the page. */
const MOST_WRITTEN = 200_000;

let files = 0;

/** Import of an access model from a file: shows the plan and applies it. */
export function ApplyPage() {
  return (
    <AdminOnly>
      <Breadcrumbs mb="xs">
        <Anchor component={Link} to="/history">
          Model history
        </Anchor>
        <Text span>Import model</Text>
      </Breadcrumbs>
      <PageTitle title="Import model" />
      <Apply />
    </AdminOnly>
  );
}

function Apply() {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [planned, setPlanned] = useState<ModelFile | null>(null);
  const [applied, setApplied] = useState(false);
  const navigate = useNavigate();
  const forget = useRef<() => void>(null);
  const type = (of: string) => {
    setText(of);
    setPlanned(null);
  };
  const plan = (name: string, text: string) => {
    files += 1;
    setPlanned({ id: `file ${files}`, text, type: typeOf(name, text) });
  };
  const take = async (file: File | null | undefined) => {
    // Resets the input, so that the same file can be selected again after a change.
    forget.current?.();
    if (file === null || file === undefined) {
      return;
    }
    setProblem(null);
    if (file.size > MOST_BYTES) {
      setProblem(
        `The file has ${formatBytes(file.size)}; at most ${formatBytes(MOST_BYTES)} can be imported.`,
      );
      return;
    }
    try {
      const read = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      setName(file.name);
      type(read);
      plan(file.name, read);
    } catch {
      setProblem("The file could not be read, or is not UTF-8 text.");
    }
  };
  return (
    <Stack gap="md">
      <UnsavedChanges when={text !== "" && !applied} />
      <Section
        title="File"
        about="The whole access model in YAML or JSON, as downloaded from the model history. Roles, policies and marked fields that the file lacks are removed."
      >
        <Drop onFile={(file) => void take(file)}>
          <Group gap="sm">
            <FileButton
              resetRef={forget}
              accept=".yaml,.yml,.json,application/yaml,application/json"
              onChange={(file) => void take(file)}
            >
              {(props) => (
                <Button {...props} variant="default" leftSection={<IconFileUpload size={16} aria-hidden />}>
                  Choose a file
                </Button>
              )}
            </FileButton>
            <Text size="sm" c="var(--tw-quiet)">
              {name === "" ? (
                "or drop it here, or paste its text below"
              ) : (
                <Visible text={`${name}, ${formatBytes(new Blob([text]).size)}`} most={200} />
              )}
            </Text>
          </Group>
        </Drop>
        {problem !== null && (
          <Text size="sm" c="var(--tw-error)" role="alert" mt="xs">
            {problem}
          </Text>
        )}
        {text.length <= MOST_WRITTEN && (
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
            onChange={(event) => type(event.currentTarget.value)}
          />
        )}
        <Group justify="flex-end" mt="sm">
          <Button variant="light" disabled={text.trim() === ""} onClick={() => plan(name, text)}>
            Compare with the current version
          </Button>
        </Group>
      </Section>
      {planned !== null && (
        <Section title="Planned changes">
          <PlanAndApply
            key={planned.id}
            file={planned}
            label="Import"
            testsMustPass
            apply={(over) => importModel(planned, over)}
            onApplied={({ version, warnings }) => {
              setApplied(true);
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

function Drop({ onFile, children }: { onFile: (file: File | undefined) => void; children: ReactNode }) {
  const [over, setOver] = useState(false);
  const keep = (event: DragEvent) => {
    // Otherwise the browser opens the file instead of the page.
    event.preventDefault();
    setOver(event.type === "dragover");
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button in it does the same by keyboard
    <div
      className={classes.drop}
      data-over={over}
      onDragOver={keep}
      onDragLeave={keep}
      onDrop={(event) => {
        keep(event);
        onFile(event.dataTransfer.files[0]);
      }}
    >
      {children}
    </div>
  );
}
