/* Looks for a key in files of writer.c. Searches only the files whose filters do not exclude it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sstfilter.h"
static const char *search(FILE *in, uint64_t end, const char *key) {
  char line[4096];
  for (rewind(in); (uint64_t)ftell(in) < end && fgets(line, sizeof line, in);) {
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, key)) return "found";
  }
  return "not found";
}

int main(int count, char **arguments) {
  sstf_options options = SSTF_OPTIONS_INIT; /* those of the writer */
  sstf_policy *policy;
  if (sstf_policy_create(&options, &policy, NULL) != SSTF_OK) return 2;
  for (int i = 2; i < count; i++) {
    uint64_t footer[3]; /* id, offset, length */
    FILE *in = fopen(arguments[i], "rb");
    if (!in || fseek(in, -24, SEEK_END) || !fread(footer, sizeof footer, 1, in)) return 2;
    sstf_filter *filter; /* NULL if it cannot be used: the file is searched then */
    void *block = footer[2] < 1u << 30 ? malloc(footer[2]) : NULL;
    size_t bytes = block && !fseek(in, (long)footer[1], SEEK_SET) ? fread(block, 1, footer[2], in) : 0;
    sstf_filter_open(policy, block, bytes, footer[0], SSTF_COPY, &filter, NULL);
    int may_contain = sstf_filter_may_contain(filter, arguments[1], strlen(arguments[1]));
    printf("%s: %s\n", arguments[i], may_contain ? search(in, footer[1], arguments[1]) : "skipped");
    sstf_filter_close(filter);
    free(block);
    fclose(in);
  }
  sstf_policy_destroy(policy);
}
