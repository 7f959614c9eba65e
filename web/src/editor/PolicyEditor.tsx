import {
  Anchor,
  Badge,
  Box,
  Button,
  Collapse,
  Group,
  Input,
  Loader,
  Stack,
  Text,
  UnstyledButton,
} from "@mantine/core";
import { useDebouncedValue, useDisclosure } from "@mantine/hooks";
import { IconAlertTriangle, IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useId, useMemo, useRef, useState } from "react";
import type { Api } from "../api/client";
import { useMe } from "../app/useMe";
import { Chevron } from "../components/Chevron";
import { errorText } from "../components/errorText";
import { PageLink } from "../components/links";
import { Message } from "../components/Message";
import { SanitizedText } from "../components/SanitizedText";
import type { EditorHandle } from "./CodeEditor";
import { type Diagnostic, summary, toDiagnostics } from "./diagnostics";
import { isUnmarkedField, underlinedName } from "./fixes";
import classes from "./PolicyEditor.module.css";
import { checkQuery, fixesQuery } from "./queries";
import { useVocabulary } from "./vocabulary";

const CodeEditor = lazy(() => import("./CodeEditor"));

/** Pause before checking: long enough while typing, short enough to seem immediate. */
const PAUSE_MS = 300;

const NO_DIAGNOSTICS: readonly Api["Diagnostic"][] = [];

/** Editor for a CEL expression with continuous validation by the service.
 *
 * Only administrators may use validation. Other users see the errors of a rejected save, which the page passes as `diagnostics`;
 * they are shown as long as the text is unchanged. */
export function PolicyEditor({
  value,
  onChange,
  label,
  description,
  diagnostics = NO_DIAGNOSTICS,
  warnings = NO_DIAGNOSTICS,
  placeholder = 'ServiceName == "checkout"',
}: {
  value: string;
  onChange: (value: string) => void;
  label: string;
  description?: ReactNode;
  /** Errors of a rejected save. */
  diagnostics?: readonly Api["Diagnostic"][];
  /** Warnings of a save, which may depend on more than the text. */
  warnings?: readonly Api["Diagnostic"][];
  placeholder?: string;
}) {
  const me = useMe();
  const id = useId();
  const vocabulary = useVocabulary();
  const handle = useRef<EditorHandle>(null);
  const [debouncedValue] = useDebouncedValue(value, PAUSE_MS);
  const check = useQuery({
    ...checkQuery(debouncedValue),
    enabled: me.is_admin && debouncedValue.trim() !== "",
    // Until the result arrives, the previous one is shown, so that the page does not flicker during typing.
    placeholderData: keepPreviousData,
  });
  const currentResult = check.isPlaceholderData ? undefined : check.data;
  const fixes = useQuery(fixesQuery(debouncedValue, currentResult));
  const externalDiagnostics = useDiagnosticsOfText(value, diagnostics, warnings);
  const isCurrent = debouncedValue === value && currentResult !== undefined;
  const checkDiagnostics = useMemo(
    () => (check.data === undefined ? [] : toDiagnostics(check.data, fixes.data)),
    [check.data, fixes.data],
  );
  const isEmpty = value.trim() === "";
  const allDiagnostics = useMemo(
    () => (isEmpty ? [] : withoutDuplicates([...checkDiagnostics, ...toDiagnostics(externalDiagnostics)])),
    [isEmpty, checkDiagnostics, externalDiagnostics],
  );
  const invalid = allDiagnostics.some((diagnostic) => diagnostic.severity === "error");
  return (
    <Stack gap={4}>
      {/* The editor is not a form control that a label could refer to. It has the same text as its accessible name. */}
      <Input.Label component="div" onClick={() => handle.current?.focus()}>
        {label}
      </Input.Label>
      {description !== undefined && <Input.Description>{description}</Input.Description>}
      <Suspense
        fallback={
          <pre className={classes.loading}>{value === "" ? " " : <SanitizedText text={value} />}</pre>
        }
      >
        <CodeEditor
          value={value}
          onChange={onChange}
          label={label}
          describedBy={`${id}-status`}
          invalid={invalid}
          placeholder={placeholder}
          diagnostics={allDiagnostics}
          // Positions in the previous text would refer to other characters of this one.
          diagnosedText={isEmpty ? value : check.isPlaceholderData ? null : debouncedValue}
          vocabulary={vocabulary}
          handle={handle}
        />
      </Suspense>
      <Box id={`${id}-status`}>
        {!isEmpty && (
          <Status
            diagnostics={allDiagnostics}
            result={isCurrent ? currentResult : undefined}
            isChecking={me.is_admin && !isCurrent && !check.isError}
            isAdmin={me.is_admin}
          />
        )}
        {check.isError && !isEmpty && (
          <Text size="xs" c="var(--tw-error)">
            The expression could not be checked: <Message text={errorText(check.error)} />{" "}
            <Anchor component="button" type="button" inherit onClick={() => void check.refetch()}>
              Check again
            </Anchor>
          </Text>
        )}
      </Box>
      {allDiagnostics.length > 0 && (
        <ul className={classes.diagnostics} aria-label={`Diagnostics for ${label}`}>
          {allDiagnostics.map((diagnostic) => (
            <DiagnosticItem
              key={diagnosticKey(diagnostic)}
              diagnostic={diagnostic}
              unmarkedName={
                me.is_admin && isUnmarkedField(diagnostic) ? underlinedName(debouncedValue, diagnostic) : null
              }
              onReveal={() => handle.current?.reveal(diagnostic)}
              onFix={onChange}
            />
          ))}
        </ul>
      )}
      {isCurrent && currentResult.predicate !== null && <Predicate text={currentResult.predicate} />}
    </Stack>
  );
}

/** Diagnostics of a text, as long as the text is unchanged. */
function useDiagnosticsOfText(
  value: string,
  errors: readonly Api["Diagnostic"][],
  warnings: readonly Api["Diagnostic"][],
): { errors: Api["Diagnostic"][]; warnings: Api["Diagnostic"][] } {
  const [snapshot, setSnapshot] = useState({ errors, warnings, value });
  if (snapshot.errors !== errors || snapshot.warnings !== warnings) {
    setSnapshot({ errors, warnings, value });
  }
  const isUnchanged = snapshot.value === value;
  return useMemo(
    () => ({ errors: isUnchanged ? [...errors] : [], warnings: isUnchanged ? [...warnings] : [] }),
    [isUnchanged, errors, warnings],
  );
}

const diagnosticKey = (diagnostic: Diagnostic) =>
  `${diagnostic.severity} ${diagnostic.line}:${diagnostic.column}+${diagnostic.length} ${diagnostic.message}`;

function withoutDuplicates(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return [
    ...new Map(
      diagnostics.toReversed().map((diagnostic) => [diagnosticKey(diagnostic), diagnostic]),
    ).values(),
  ].toReversed();
}

function Status({
  diagnostics,
  result,
  isChecking,
  isAdmin,
}: {
  diagnostics: readonly Diagnostic[];
  result: Api["CheckResult"] | undefined;
  isChecking: boolean;
  isAdmin: boolean;
}) {
  const worstSeverity = diagnostics.some((diagnostic) => diagnostic.severity === "error")
    ? "error"
    : diagnostics.length > 0
      ? "warning"
      : "fine";
  if (!isAdmin && diagnostics.length === 0) {
    return null;
  }
  return (
    <Group
      gap="xs"
      className={classes.status}
      data-worst-severity={result === undefined ? undefined : worstSeverity}
    >
      <Group gap={6} role="status" wrap="nowrap">
        {isChecking ? (
          <>
            <Loader size={12} aria-hidden />
            <span>Checking…</span>
          </>
        ) : (
          (result !== undefined || !isAdmin) && (
            <>
              {worstSeverity === "error" ? (
                <IconCircleX size={16} aria-hidden />
              ) : worstSeverity === "warning" ? (
                <IconAlertTriangle size={16} aria-hidden />
              ) : (
                <IconCircleCheck size={16} aria-hidden />
              )}
              <span>{summary(diagnostics)}</span>
            </>
          )
        )}
      </Group>
      {result !== undefined && result.fields.length > 0 && (
        <Group gap={4} className={classes.fields}>
          <span>reads</span>
          {result.fields.map((field) => (
            <Badge key={field} variant="default" size="sm" fw={400} className={classes.field}>
              <SanitizedText text={field} maxLength={80} />
            </Badge>
          ))}
        </Group>
      )}
    </Group>
  );
}

function DiagnosticItem({
  diagnostic,
  unmarkedName,
  onReveal,
  onFix,
}: {
  diagnostic: Diagnostic;
  /** Name of a field that the user can mark, so that policies can name it. */
  unmarkedName: string | null;
  onReveal: () => void;
  onFix: (text: string) => void;
}) {
  return (
    <li data-severity={diagnostic.severity}>
      <UnstyledButton
        className={classes.position}
        onClick={onReveal}
        aria-label={`${diagnostic.line}:${diagnostic.column}, ${diagnostic.severity}: go there`}
      >
        {diagnostic.line}:{diagnostic.column}
      </UnstyledButton>
      <div className={classes.message}>
        <Message text={diagnostic.message} />
        {diagnostic.hint !== undefined && (
          <div className={classes.hint}>
            <Message text={diagnostic.hint} />
          </div>
        )}
        {diagnostic.fixes.map((fix) => (
          <Button
            key={fix.text}
            size="compact-xs"
            variant="light"
            mt={4}
            mr={6}
            className={classes.fix}
            onClick={() => onFix(fix.text)}
          >
            {fix.label}
          </Button>
        ))}
        {unmarkedName !== null && (
          // In another tab, so that the edited policy stays.
          <PageLink
            to="/source"
            search={{ find: unmarkedName }}
            target="_blank"
            size="xs"
            display="block"
            mt={4}
          >
            Mark this field in the trace source
          </PageLink>
        )}
      </div>
    </li>
  );
}

/** The predicate for ClickHouse, for performance tuning. */
function Predicate({ text }: { text: string }) {
  const [opened, { toggle }] = useDisclosure();
  const id = useId();
  return (
    <div>
      <UnstyledButton className={classes.toggle} onClick={toggle} aria-expanded={opened} aria-controls={id}>
        <Chevron opened={opened} />
        Compiled SQL
      </UnstyledButton>
      <Collapse expanded={opened} id={id}>
        <pre className={classes.predicate}>
          <SanitizedText text={text} />
        </pre>
      </Collapse>
    </div>
  );
}
