import { Button, Group, Progress, Text } from "@mantine/core";
import { useEffect, useState } from "react";

/** Progress of counting in ClickHouse, with the elapsed time and a stop button. */
export function CountProgress({
  label,
  seconds,
  onStop,
}: {
  label: string;
  seconds: number;
  onStop: () => void;
}) {
  const [elapsed, setElapsed] = useState(0);
  useEffect(() => {
    const start = performance.now();
    const timer = setInterval(() => setElapsed((performance.now() - start) / 1000), 250);
    return () => clearInterval(timer);
  }, []);
  const percent = Math.min(100, (elapsed / seconds) * 100);
  return (
    <div aria-busy>
      <Group justify="space-between" mb={4}>
        <Text size="sm" role="status">
          {label}, for at most {seconds} seconds…
        </Text>
        <Button size="compact-sm" variant="default" onClick={onStop}>
          Stop
        </Button>
      </Group>
      <Progress value={percent} size="sm" aria-label="Time taken" />
    </div>
  );
}
