import { meQuery, queryClient } from "../api/queries";

/** After a preview began or ended: everything may look different with another access. */
export async function previewChanged(): Promise<void> {
  // Who is logged in stays known meanwhile, so that no page takes the reader for nobody.
  await queryClient.fetchQuery({ ...meQuery, staleTime: 0 });
  await queryClient.resetQueries({ predicate: (query) => query.queryKey[0] !== meQuery.queryKey[0] });
}
