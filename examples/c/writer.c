/* Writes sorted lines as a file: the lines | filter block | id, offset and length of the block, 8 bytes each. */
#include <stdio.h>
#include <string.h>
#include "sstfilter.h"
int main(int count, char **arguments) {
  sstf_options options = SSTF_OPTIONS_INIT;
  sstf_policy *policy;
  sstf_builder *builder;
  FILE *out = count == 2 ? fopen(arguments[1], "wb") : NULL;
  if (!out || sstf_policy_create(&options, &policy, NULL) != SSTF_OK) return 2;
  uint64_t file_id = sstf_file_id_random();
  sstf_builder_create(policy, file_id, SSTF_COMPACTION, 0, &builder, NULL);
  for (char line[4096]; fgets(line, sizeof line, stdin);) {
    line[strcspn(line, "\n")] = 0;
    fprintf(out, "%s\n", line); /* also after a last line that has no line break */
    sstf_builder_add_key(builder, line, strlen(line));
  }
  const void *block;
  size_t bytes; /* 0 without a filter: readers then search the file for each key */
  sstf_builder_finish(builder, &block, &bytes, NULL);
  uint64_t footer[3] = {file_id, (uint64_t)ftell(out), bytes};
  if (bytes) fwrite(block, 1, bytes, out);
  fwrite(footer, sizeof footer, 1, out);
  sstf_builder_destroy(builder);
  sstf_policy_destroy(policy);
  int failed = ferror(out);
  return fclose(out) || failed;
}
