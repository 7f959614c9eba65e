import { Button, Group, Loader, Text } from "@mantine/core";
import { IconMoodEmpty } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { hasStatus } from "../../api/client";
import { useMe } from "../../app/useMe";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageTitle } from "../../components/PageTitle";
import { SanitizedText } from "../../components/SanitizedText";
import { type Progress, traceQuery } from "./loadTrace";
import { TraceView } from "./TraceView";
import classes from "./trace.module.css";
import { HiddenTraceAccess } from "./why/HiddenTraceAccess";
import { removeAccessQueries } from "./why/queries";

/** Page of a trace by id. */
export function TracePage() {
  const { traceId } = useParams({ from: "/app/trace/$traceId" });
  const [progress, setProgress] = useState<Progress>({ bytes: 0, spans: 0 });
  const { data, error, isFetching, refetch } = useQuery(traceQuery(traceId, setProgress));
  const reload = () => {
    removeAccessQueries(data?.id ?? traceId);
    void refetch();
  };
  if (error !== null && !isFetching) {
    return hasStatus(error, 404) ? (
      <TraceNotFound id={traceId} onRetry={reload} />
    ) : (
      <>
        <PageTitle title="Trace" />
        <ErrorNotice error={error} onRetry={reload} />
      </>
    );
  }
  if (data === undefined || isFetching) {
    return <LoadingTrace progress={progress} />;
  }
  if (data.count === 0) {
    return <TraceNotFound id={traceId} onRetry={reload} />;
  }
  // Another trace starts with a fresh state.
  return <TraceView key={traceId} trace={data} onReload={reload} />;
}

function LoadingTrace({ progress }: { progress: Progress }) {
  return (
    <>
      <PageTitle title="Trace" />
      <Group gap="sm" role="status" className={classes.loading}>
        <Loader size="sm" aria-hidden />
        <Text>
          {progress.bytes === 0
            ? "Requesting the trace…"
            : `Received ${(progress.bytes / 1e6).toFixed(1)} MB, ${progress.spans.toLocaleString("en")} spans…`}
        </Text>
      </Group>
    </>
  );
}

/** The same page for a trace that does not exist and for one that the user may not see, so that they are indistinguishable. */
function TraceNotFound({ id, onRetry }: { id: string; onRetry: () => void }) {
  const me = useMe();
  return (
    <>
      <PageTitle title="Trace" />
      <EmptyState
        title="This trace does not exist, or you may not see it"
        icon={<IconMoodEmpty size={32} aria-hidden />}
      >
        <p>
          Trace id: <code className={classes.id}>{<SanitizedText text={id} maxLength={64} />}</code>. A trace
          that has just been sent may take a moment to arrive. Access to a trace requires a role with a policy
          that one of its spans satisfies;{" "}
          {me.is_admin
            ? "this includes administrators: check your roles."
            : "if you need access, send the address of this page to an administrator."}
        </p>
        <Group justify="center" gap="xs">
          <Button variant="default" onClick={onRetry}>
            Try again
          </Button>
          <Button variant="default" component={Link} to="/search">
            Go to the search
          </Button>
        </Group>
      </EmptyState>
      {me.is_admin && <HiddenTraceAccess id={id} />}
    </>
  );
}
