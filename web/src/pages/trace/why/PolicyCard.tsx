import { UnstyledButton } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { type ReactNode, useId, useState } from "react";
import type { Api } from "../../../api/client";
import { useMe } from "../../../app/useMe";
import { InWords } from "../../../components/InWords";
import { PageLink } from "../../../components/links";
import { Message } from "../../../components/Message";
import { Visible } from "../../../components/Visible";
import { DecidedDetails, DecidedExpression, Outcome } from "../../../editor/Decided";
import { nameOrNone } from "../../../lib/names";
import { countText, nearestText, outcomeOf } from "./explanation";
import classes from "./why.module.css";

type Go = ((span: Api["SpanMention"]) => boolean) | null;

const SAID: Readonly<Record<Api["PolicyVerdict"], string>> = {
  satisfied: "grants access",
  not_satisfied: "no match",
  broken: "broken",
};

/** A policy with its verdict for the trace. */
export function PolicyCard({
  verdict,
  unfolded,
  onGo,
}: {
  verdict: Api["ExplainedPolicy"];
  unfolded: boolean;
  onGo: Go;
}) {
  return (
    <Card
      name={
        <>
          <Visible text={verdict.role} most={60} /> /{" "}
          <strong>{<Visible text={verdict.title} most={120} />}</strong>
        </>
      }
      said={SAID[verdict.outcome]}
      verdict={verdict}
      description={verdict.description}
      unfolded={unfolded}
      roleName={verdict.role}
      onGo={onGo}
    />
  );
}

/** The policy of a scoped API key, which must be satisfied in addition to a policy of a role. */
export function KeyConstraintCard({ verdict, onGo }: { verdict: Api["PolicyExplanation"]; onGo: Go }) {
  return (
    <Card
      name={<strong>Constraint of the API key</strong>}
      said={verdict.outcome === "satisfied" ? "match" : SAID[verdict.outcome]}
      verdict={verdict}
      unfolded
      roleName={null}
      onGo={onGo}
    />
  );
}

function Card({
  name,
  said,
  verdict,
  description,
  unfolded,
  roleName,
  onGo,
}: {
  name: ReactNode;
  said: string;
  verdict: Api["PolicyExplanation"];
  description?: string | undefined;
  unfolded: boolean;
  roleName: string | null;
  onGo: Go;
}) {
  const [shown, setShown] = useState(unfolded);
  const id = useId();
  return (
    <article className={classes.policy} aria-labelledby={`${id}-name`}>
      <UnstyledButton
        className={classes.head}
        aria-expanded={shown}
        aria-controls={id}
        onClick={() => setShown(!shown)}
      >
        {shown ? <IconChevronDown size={14} aria-hidden /> : <IconChevronRight size={14} aria-hidden />}
        <span className={classes.names} id={`${id}-name`}>
          {name}
        </span>{" "}
        <Outcome outcome={outcomeOf(verdict.outcome)}>{said}</Outcome>
      </UnstyledButton>
      {shown && (
        <div id={id} className={classes.body}>
          {description !== undefined && description !== "" && (
            <span className={classes.quiet}>
              <Visible text={description} />
            </span>
          )}
          <Body verdict={verdict} roleName={roleName} onGo={onGo} />
        </div>
      )}
    </article>
  );
}

function Body({
  verdict,
  roleName,
  onGo,
}: {
  verdict: Api["PolicyExplanation"];
  roleName: string | null;
  onGo: Go;
}) {
  const me = useMe();
  const { expression, in_words, decided_by, nearest, spans } = verdict;
  return (
    <>
      {in_words !== undefined && <InWords text={in_words} />}
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
          <DecidedExpression expression={expression} parts={decided_by?.parts ?? []} />
          {decided_by !== undefined && (
            <DecidedDetails outcome={decided_by.outcome} parts={decided_by.parts} />
          )}
        </div>
      )}
      {verdict.outcome === "broken" && (
        <div>
          It is not valid for the current fields, and its users cannot read any trace.{" "}
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
                <SpanLink span={span} onGo={onGo} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {nearest !== undefined && (
        <div>
          <span className={classes.label}>Nearest span, which {nearestText(nearest.score)}</span>
          <SpanLink span={nearest} onGo={onGo} />
        </div>
      )}
    </>
  );
}

/** The name of a span. Clicking it shows the span in the view. */
function SpanLink({ span, onGo }: { span: Api["SpanMention"]; onGo: Go }) {
  const [absent, setAbsent] = useState(false);
  const name = (
    <>
      <span className={classes.spanName}>
        <Visible text={nameOrNone(span.name)} most={160} />
      </span>{" "}
      <span className={classes.quiet}>
        <Visible text={span.service || "(no service)"} most={80} />
      </span>
    </>
  );
  return onGo === null ? (
    <span className={classes.span}>{name}</span>
  ) : (
    <>
      <UnstyledButton className={classes.span} onClick={() => setAbsent(!onGo(span))}>
        {name}
      </UnstyledButton>
      {absent && (
        <span role="status" className={classes.quiet}>
          The span arrived after this page was loaded. Reload the trace to see it.
        </span>
      )}
    </>
  );
}
