/** Numbers by bucket: those of a bucket are from its element in `first` to the next one. */
export type Buckets = { readonly first: Int32Array; readonly numbers: Int32Array };

/** Counting sort: orders the numbers 0, 1, … by their buckets. Within a bucket, they stay in ascending order. */
export function sortIntoBuckets(bucketOf: ArrayLike<number>, bucketCount: number): Buckets {
  const first = new Int32Array(bucketCount + 1);
  for (let number = 0; number < bucketOf.length; number += 1) {
    const next = (bucketOf[number] ?? 0) + 1;
    first[next] = (first[next] ?? 0) + 1;
  }
  for (let bucket = 0; bucket < bucketCount; bucket += 1) {
    first[bucket + 1] = (first[bucket + 1] ?? 0) + (first[bucket] ?? 0);
  }
  const nextIndex = Int32Array.from(first);
  const numbers = new Int32Array(bucketOf.length);
  for (let number = 0; number < bucketOf.length; number += 1) {
    const bucket = bucketOf[number] ?? 0;
    const index = nextIndex[bucket] ?? 0;
    numbers[index] = number;
    nextIndex[bucket] = index + 1;
  }
  return { first, numbers };
}
