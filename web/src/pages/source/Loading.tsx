import { Skeleton, Stack, VisuallyHidden } from "@mantine/core";

/** Placeholder rows during loading. */
export function Loading({ label, rows = 6 }: { label: string; rows?: number }) {
  return (
    <Stack gap="xs" role="status" aria-busy>
      <VisuallyHidden>Loading {label}</VisuallyHidden>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows without identity
        <Skeleton key={row} height={36} />
      ))}
    </Stack>
  );
}
