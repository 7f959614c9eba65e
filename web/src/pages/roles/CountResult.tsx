import { Button, Group, Text } from "@mantine/core";
import type { QueryKey } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import { CountProgress } from "./CountProgress";

/** The result of counting in ClickHouse; before, its progress, and without a result, the reason. */
export function CountResult<T>({
  query: { data, error, isFetching, refetch },
  queryKey,
  label,
  seconds,
  errorTitle,
  stoppedText,
  retryLabel = "Count",
  children,
}: {
  query: { data: T | undefined; error: unknown; isFetching: boolean; refetch: () => Promise<unknown> };
  queryKey: QueryKey;
  /** Label of the progress. */
  label: string;
  seconds: number;
  errorTitle?: string;
  /** Shown if the user has stopped counting. */
  stoppedText: string;
  retryLabel?: string;
  children: (data: T) => ReactNode;
}) {
  if (isFetching) {
    return (
      <CountProgress
        label={label}
        seconds={seconds}
        onStop={() => void queryClient.cancelQueries({ queryKey })}
      />
    );
  }
  if (error !== null) {
    return <ErrorNotice error={error} title={errorTitle} onRetry={() => void refetch()} />;
  }
  if (data === undefined) {
    return (
      <Group gap="sm">
        <Text size="sm">{stoppedText}</Text>
        <Button size="compact-sm" variant="default" onClick={() => void refetch()}>
          {retryLabel}
        </Button>
      </Group>
    );
  }
  return children(data);
}
