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
import {
  IconAlertTriangle,
  IconChevronDown,
  IconChevronRight,
  IconCircleCheck,
  IconCircleX,
} from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useId, useMemo, useRef, useState } from "react";
import type { Api } from "../api/client";
import { useMe } from "../app/useMe";
import { errorText } from "../components/errorText";
import { Message } from "../components/Message";
import { Visible } from "../components/Visible";
import type { EditorHandle } from "./CodeEditor";
import classes from "./PolicyEditor.module.css";
import { checkQuery, fixesQuery } from "./queries";
import { type Remark, remarksOf, summary } from "./remarks";
import { useVocabulary } from "./vocabulary";

const CodeEditor = lazy(() => import("./CodeEditor"));

/** Pause before checking: long enough while typing, short enough to seem immediate. */
const PAUSE_MS = 300;

const NONE: readonly Api["Diagnostic"][] = [];

/** Editor for a CEL expression with continuous validation by the service.
 *
 * Only administrators may use validation. Other users see the errors of a rejected save, which the page passes as `diagnostics`;
 * they are shown as long as the text is unchanged. */
export function PolicyEditor({
  value,
  onChange,
  label,
  description,
  diagnostics = NONE,
  warnings = NONE,
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
  const [settled] = useDebouncedValue(value, PAUSE_MS);
  const check = useQuery({
    ...checkQuery(settled),
    enabled: me.is_admin && settled.trim() !== "",
    // Until the result arrives, the previous one is shown, so that the page does not flicker during typing.
    placeholderData: keepPreviousData,
  });
  const fresh = check.isPlaceholderData ? undefined : check.data;
  const fixes = useQuery(fixesQuery(settled, fresh));
  const told = useOfText(value, diagnostics, warnings);
  const current = settled === value && fresh !== undefined;
  const found = useMemo(
    () => (check.data === undefined ? [] : remarksOf(check.data, fixes.data)),
    [check.data, fixes.data],
  );
  const empty = value.trim() === "";
  const remarks = useMemo(
    () => (empty ? [] : distinct([...found, ...remarksOf(told)])),
    [empty, found, told],
  );
  const invalid = remarks.some((remark) => remark.severity === "error");
  return (
    <Stack gap={4}>
      {/* The editor is not a form control that a label could refer to. It has the same text as its accessible name. */}
      <Input.Label component="div" onClick={() => handle.current?.focus()}>
        {label}
      </Input.Label>
      {description !== undefined && <Input.Description>{description}</Input.Description>}
      <Suspense
        fallback={<pre className={classes.loading}>{value === "" ? " " : <Visible text={value} />}</pre>}
      >
        <CodeEditor
          value={value}
          onChange={onChange}
          label={label}
          describedBy={`${id}-status`}
          invalid={invalid}
          placeholder={placeholder}
          remarks={remarks}
          // Positions in the previous text would refer to other characters of this one.
          about={empty ? value : check.isPlaceholderData ? null : settled}
          vocabulary={vocabulary}
          handle={handle}
        />
      </Suspense>
      <Box id={`${id}-status`}>
        {!empty && (
          <Status
            remarks={remarks}
            checked={current ? fresh : undefined}
            checking={me.is_admin && !current && !check.isError}
            admin={me.is_admin}
          />
        )}
        {check.isError && !empty && (
          <Text size="xs" c="var(--tw-error)">
            The expression could not be checked: <Message text={errorText(check.error)} />{" "}
            <Anchor component="button" type="button" inherit onClick={() => void check.refetch()}>
              Check again
            </Anchor>
          </Text>
        )}
      </Box>
      {remarks.length > 0 && (
        <ul className={classes.remarks} aria-label={`Diagnostics for ${label}`}>
          {remarks.map((remark) => (
            <RemarkLine
              key={keyOf(remark)}
              remark={remark}
              onReveal={() => handle.current?.reveal(remark)}
              onFix={onChange}
            />
          ))}
        </ul>
      )}
      {current && fresh.predicate !== null && <Predicate text={fresh.predicate} />}
    </Stack>
  );
}

/** Diagnostics of a text, as long as the text is unchanged. */
function useOfText(
  value: string,
  errors: readonly Api["Diagnostic"][],
  warnings: readonly Api["Diagnostic"][],
): { errors: Api["Diagnostic"][]; warnings: Api["Diagnostic"][] } {
  const [about, setAbout] = useState({ errors, warnings, value });
  if (about.errors !== errors || about.warnings !== warnings) {
    setAbout({ errors, warnings, value });
  }
  const holds = about.value === value;
  return useMemo(
    () => ({ errors: holds ? [...errors] : [], warnings: holds ? [...warnings] : [] }),
    [holds, errors, warnings],
  );
}

const keyOf = (remark: Remark) =>
  `${remark.severity} ${remark.line}:${remark.column}+${remark.length} ${remark.message}`;

function distinct(remarks: readonly Remark[]): Remark[] {
  return [...new Map(remarks.toReversed().map((remark) => [keyOf(remark), remark])).values()].toReversed();
}

function Status({
  remarks,
  checked,
  checking,
  admin,
}: {
  remarks: readonly Remark[];
  checked: Api["CheckResult"] | undefined;
  checking: boolean;
  admin: boolean;
}) {
  const worst = remarks.some((remark) => remark.severity === "error")
    ? "error"
    : remarks.length > 0
      ? "warning"
      : "fine";
  if (!admin && remarks.length === 0) {
    return null;
  }
  return (
    <Group gap="xs" className={classes.status} data-worst={checked === undefined ? undefined : worst}>
      <Group gap={6} role="status" wrap="nowrap">
        {checking ? (
          <>
            <Loader size={12} aria-hidden />
            <span>Checking…</span>
          </>
        ) : (
          (checked !== undefined || !admin) && (
            <>
              {worst === "error" ? (
                <IconCircleX size={16} aria-hidden />
              ) : worst === "warning" ? (
                <IconAlertTriangle size={16} aria-hidden />
              ) : (
                <IconCircleCheck size={16} aria-hidden />
              )}
              <span>{summary(remarks)}</span>
            </>
          )
        )}
      </Group>
      {checked !== undefined && checked.fields.length > 0 && (
        <Group gap={4} className={classes.fields}>
          <span>reads</span>
          {checked.fields.map((field) => (
            <Badge key={field} variant="default" size="sm" tt="none" fw={400} className={classes.field}>
              <Visible text={field} most={80} />
            </Badge>
          ))}
        </Group>
      )}
    </Group>
  );
}

function RemarkLine({
  remark,
  onReveal,
  onFix,
}: {
  remark: Remark;
  onReveal: () => void;
  onFix: (text: string) => void;
}) {
  return (
    <li data-severity={remark.severity}>
      <UnstyledButton
        className={classes.place}
        onClick={onReveal}
        aria-label={`${remark.line}:${remark.column}, ${remark.severity}: go there`}
      >
        {remark.line}:{remark.column}
      </UnstyledButton>
      <div className={classes.said}>
        <Message text={remark.message} />
        {remark.hint !== undefined && (
          <div className={classes.hint}>
            <Message text={remark.hint} />
          </div>
        )}
        {remark.fixes.map((fix) => (
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
        {opened ? <IconChevronDown size={14} aria-hidden /> : <IconChevronRight size={14} aria-hidden />}
        Compiled SQL
      </UnstyledButton>
      <Collapse expanded={opened} id={id}>
        <pre className={classes.predicate}>
          <Visible text={text} />
        </pre>
      </Collapse>
    </div>
  );
}
