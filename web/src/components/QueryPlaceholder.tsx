import { Skeleton } from "@mantine/core";
import { ErrorNotice } from "./ErrorNotice";

/** Placeholder for the data of a query: a skeleton during loading, otherwise the error. */
export function QueryPlaceholder({
  query: { error, refetch },
  label,
  height,
  errorTitle,
}: {
  query: { error: unknown; refetch: () => Promise<unknown> };
  /** What is loaded. */
  label: string;
  height: number;
  errorTitle?: string;
}) {
  return error === null ? (
    <Skeleton role="status" height={height} aria-label={`Loading ${label}`} />
  ) : (
    <ErrorNotice error={error} title={errorTitle} onRetry={() => void refetch()} />
  );
}
