import { UnstyledButton } from "@mantine/core";
import { type ReactNode, useId, useState } from "react";
import type { Api } from "../../../api/client";
import { useMe } from "../../../app/useMe";
import { Chevron } from "../../../components/Chevron";
import { PageLink } from "../../../components/links";
import { Message } from "../../../components/Message";
import { PolicyDescription } from "../../../components/PolicyDescription";
import { SanitizedText } from "../../../components/SanitizedText";
import { HighlightedExpression, Outcome, OutcomeDetails } from "../../../editor/Outcome";
import { nameOrPlaceholder } from "../../../lib/names";
import { countText, nearestText, outcomeOf, type ShowSpan } from "./explanation";
import classes from "./why.module.css";

const VERDICT_LABELS: Readonly<Record<Api["PolicyVerdict"], string>> = {
  satisfied: "grants access",
  not_satisfied: "no match",
  broken: "broken",
};

/** A policy with its verdict for the trace. */
export function PolicyCard({
  verdict,
  initiallyExpanded,
  onShowSpan,
}: {
  verdict: Api["ExplainedPolicy"];
  initiallyExpanded: boolean;
  onShowSpan: ShowSpan;
}) {
  return (
    <VerdictCard
      name={
        <>
          <SanitizedText text={verdict.role} maxLength={60} /> /{" "}
          <strong>{<SanitizedText text={verdict.title} maxLength={120} />}</strong>
        </>
      }
      outcomeLabel={VERDICT_LABELS[verdict.outcome]}
      verdict={verdict}
      description={verdict.description}
      initiallyExpanded={initiallyExpanded}
      roleName={verdict.role}
      onShowSpan={onShowSpan}
    />
  );
}

/** The policy of a scoped API key, which must be satisfied in addition to a policy of a role. */
export function KeyConstraintCard({
  verdict,
  onShowSpan,
}: {
  verdict: Api["PolicyExplanation"];
  onShowSpan: ShowSpan;
}) {
  return (
    <VerdictCard
      name={<strong>Constraint of the API key</strong>}
      outcomeLabel={verdict.outcome === "satisfied" ? "match" : VERDICT_LABELS[verdict.outcome]}
      verdict={verdict}
      initiallyExpanded
      roleName={null}
      onShowSpan={onShowSpan}
    />
  );
}

function VerdictCard({
  name,
  outcomeLabel,
  verdict,
  description,
  initiallyExpanded,
  roleName,
  onShowSpan,
}: {
  name: ReactNode;
  outcomeLabel: string;
  verdict: Api["PolicyExplanation"];
  description?: string | undefined;
  initiallyExpanded: boolean;
  roleName: string | null;
  onShowSpan: ShowSpan;
}) {
  const [isExpanded, setIsExpanded] = useState(initiallyExpanded);
  const id = useId();
  return (
    <article className={classes.policy} aria-labelledby={`${id}-name`}>
      <UnstyledButton
        className={classes.policyHeader}
        aria-expanded={isExpanded}
        aria-controls={id}
        onClick={() => setIsExpanded(!isExpanded)}
      >
        <Chevron opened={isExpanded} />
        <span className={classes.names} id={`${id}-name`}>
          {name}
        </span>{" "}
        <Outcome outcome={outcomeOf(verdict.outcome)}>{outcomeLabel}</Outcome>
      </UnstyledButton>
      {isExpanded && (
        <div id={id} className={classes.body}>
          {description !== undefined && description !== "" && (
            <span className={classes.secondary}>
              <SanitizedText text={description} />
            </span>
          )}
          <VerdictDetails verdict={verdict} roleName={roleName} onShowSpan={onShowSpan} />
        </div>
      )}
    </article>
  );
}

function VerdictDetails({
  verdict,
  roleName,
  onShowSpan,
}: {
  verdict: Api["PolicyExplanation"];
  roleName: string | null;
  onShowSpan: ShowSpan;
}) {
  const me = useMe();
  const { expression, requirement, decided_by, nearest, spans } = verdict;
  return (
    <>
      {requirement !== undefined && <PolicyDescription text={requirement} />}
      {expression !== undefined && (
        <div>
          <span className={classes.label}>
            Expression
            {decided_by !== undefined && ", with the decisive parts"}
            {me.is_admin && roleName !== null && (
              <>
                {" · "}
                <PageLink to="/roles/$name" params={{ name: roleName }} inherit underline="always">
                  open the role
                </PageLink>
              </>
            )}
          </span>
          <HighlightedExpression expression={expression} decisions={decided_by?.parts ?? []} />
          {decided_by !== undefined && (
            <OutcomeDetails outcome={decided_by.outcome} decisions={decided_by.parts} />
          )}
        </div>
      )}
      {verdict.outcome === "broken" && (
        <div>
          It is invalid for the current fields, and its users cannot read any trace.{" "}
          {me.is_admin ? "Fix it in its role." : "Tell an administrator."}
          {verdict.errors?.map(({ line, column, message, hint }) => (
            <p key={`${line} ${column} ${message}`} className={classes.error}>
              {line}:{column} <Message text={hint === undefined ? message : `${message} (${hint})`} />
            </p>
          ))}
        </div>
      )}
      {verdict.outcome === "satisfied" && (
        <div>
          {countText(verdict.satisfied_by ?? spans.length, spans.length)}
          <ul className={classes.spans}>
            {spans.map((span) => (
              <li key={`${span.span_id} ${span.start} ${span.service} ${span.name}`}>
                <SpanLink span={span} onShowSpan={onShowSpan} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {nearest !== undefined && (
        <div>
          <span className={classes.label}>Nearest span, which {nearestText(nearest.score)}</span>
          <SpanLink span={nearest} onShowSpan={onShowSpan} />
        </div>
      )}
    </>
  );
}

/** The name of a span. Clicking it shows the span in the view. */
function SpanLink({ span, onShowSpan }: { span: Api["SpanMention"]; onShowSpan: ShowSpan }) {
  const [isAbsent, setIsAbsent] = useState(false);
  const name = (
    <>
      <span className={classes.spanName}>
        <SanitizedText text={nameOrPlaceholder(span.name)} maxLength={160} />
      </span>{" "}
      <span className={classes.secondary}>
        <SanitizedText text={span.service || "(no service)"} maxLength={80} />
      </span>
    </>
  );
  return onShowSpan === null ? (
    <span className={classes.span}>{name}</span>
  ) : (
    <>
      <UnstyledButton className={classes.span} onClick={() => setIsAbsent(!onShowSpan(span))}>
        {name}
      </UnstyledButton>
      {isAbsent && (
        <span role="status" className={classes.secondary}>
          The span arrived after this page was loaded. Reload the trace to see it.
        </span>
      )}
    </>
  );
}
