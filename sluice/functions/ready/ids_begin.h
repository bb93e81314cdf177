/* The beginning and the end of a run: the table of rules, the data of searches, the files that are written. */
#ifndef IDS_BEGIN_H
#define IDS_BEGIN_H

#include "ids_flow.h"

/* The data for one scan of packets and buffers; false without memory. */
SL_COLD bool ids_open_scans(struct ids *ids)
{
    bool made = true;
    for (uint32_t i = 0; i < ids->table.group_count; i++) {
        struct ids_group *group = &ids->table.groups[i];
        if (!group->database)
            continue;
        made &= hs_alloc_scratch(group->database, &ids->scratch) == HS_SUCCESS;
        made &= hs_stream_size(group->database, &group->stream_size) == HS_SUCCESS;
        made &= hs_open_stream(group->database, 0, &group->whole) == HS_SUCCESS;
    }
    for (unsigned i = 0; i < 2 * IDS_PORTED; i++) {
        const struct ids_port_map *map = &ids->table.ports_of[i / 2][i % 2];
        for (uint32_t k = 0; k < map->count; k++) {
            const struct ids_group *group = &ids->table.groups[map->at[k].group];
            ids->ported[i / 2] |= group->count || group->always_count;
        }
    }
    ids->work.data = pcre2_match_data_create(32, NULL);
    ids->work.context = pcre2_match_context_create(NULL);
    ids->work.stack = pcre2_jit_stack_create(32 << 10, 1 << 20, NULL);   /* NULL: the one of 32 KiB that PCRE2 has */
    if (ids->work.context && ids->work.stack)
        pcre2_jit_stack_assign(ids->work.context, NULL, ids->work.stack);
    if (ids->work.context)
        pcre2_set_callout(ids->work.context, ids_step, &ids->work);
    ids->alerts = calloc(ids->table.rule_count + 1, sizeof *ids->alerts);
    ids->found = calloc(ids->table.part_count + 1, sizeof *ids->found);
    ids->mark = calloc(ids->table.part_count + 1, sizeof *ids->mark);
    ids->counts.at = calloc(ids->counts.mask + 1, sizeof *ids->counts.at);
    return made && ids->work.data && ids->work.context && ids->alerts && ids->found && ids->mark && ids->counts.at;
}

SLUICE_OPEN {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const char *path = SLUICE_PARAMETER_OF(box, table);
    if (!*path) {
        fprintf(stderr, "ids: no rules: give rules=FILE\n");
        return -1;
    }
    const char *wrong = ids_table_open(&ids->table, path);
    if (wrong) {
        fprintf(stderr, "ids: %s: %s\n", path, wrong);
        return -1;
    }
    ids->budget.most = SLUICE_PARAMETER_OF(box, memory);
    ids->block = sl_min(sl_max(SLUICE_PARAMETER_OF(box, block), 2048), 1048576);
    for (ids->counts.mask = 15; ids->counts.mask + 1 < sl_min(SLUICE_PARAMETER_OF(box, thresholds), 1 << 24);)
        ids->counts.mask = 2 * ids->counts.mask + 1;
    if (!ids_open_scans(ids)) {
        fprintf(stderr, "ids: no memory\n");
        return -1;
    }
    ids->work.steps_most = SLUICE_PARAMETER_OF(box, pcre_limit);
    uint32_t limit = (uint32_t)sl_min(ids->work.steps_most, UINT32_MAX);
    pcre2_set_match_limit(ids->work.context, limit);
    pcre2_set_depth_limit(ids->work.context, limit);
    pcre2_set_heap_limit(ids->work.context, IDS_HEAP_MOST);
    if (*SLUICE_PARAMETER_OF(box, profile) && !(ids->costs = calloc(ids->table.rule_count + 1, sizeof *ids->costs))) {
        fprintf(stderr, "ids: no memory\n");
        return -1;
    }
    char message[256];
    const char *packets = SLUICE_PARAMETER_OF(box, packets);
    if (SLUICE_WORKERS(box) > 1 && (*packets || *SLUICE_PARAMETER_OF(box, profile))) {
        fprintf(stderr, "ids: packets and profile are written by one worker: leave --workers out\n");
        return -1;
    }
    if (*packets && sl_writer_open(&ids->packets, packets, SL_WRITER_FIRST, 0, message, sizeof message)) {
        fprintf(stderr, "ids: %s\n", message);
        return -1;
    }
    if (tls_secrets_open(&ids->secrets, box, SLUICE_PARAMETER_OF(box, keylog), &ids->budget))
        return -1;
    if (ids->table.http) {
        http2_library_open(&ids->hpack, &ids->budget);
        http3_library_open(&ids->qpack, &ids->budget);
    }
    return log_open(&ids->log, box, "ids", SLUICE_PARAMETER_OF(box, out));
}

SL_COLD void ids_write_counts(struct sl_box *box, const struct ids *ids)
{
    FILE *file = fopen(SLUICE_PARAMETER_OF(box, counts), "w");
    bool failed = !file;
    for (uint32_t i = 0; file && i < ids->table.rule_count; i++)
        if (ids->alerts[i])
            fprintf(file, "%u %u %llu\n", ids->table.rules[i].gid, ids->table.rules[i].sid, (unsigned long long)ids->alerts[i]);
    failed |= file && fclose(file);
    if (failed)
        sl_fail(box, "ids: the counts of alerts could not be written", strerror(errno));
}

SL_COLD void ids_write_costs(struct sl_box *box, const struct ids *ids)
{
    FILE *file = sl_create(SLUICE_PARAMETER_OF(box, profile));
    bool failed = !file;
    for (uint32_t i = 0; file && i < ids->table.rule_count; i++)
        if (ids->costs[i].checks)
            fprintf(file, "%u %u %llu %llu %llu\n", ids->table.rules[i].gid, ids->table.rules[i].sid,
                    (unsigned long long)ids->costs[i].checks, (unsigned long long)ids->costs[i].matches,
                    (unsigned long long)ids->costs[i].nanoseconds);
    failed |= file && fclose(file);
    if (failed)
        sl_fail(box, "ids: what the rules have cost could not be written", strerror(errno));
}

SLUICE_CLOSE {
    struct ids *ids = SLUICE_WORKER_OF(box);
    char message[200];   /* fits into the text of a failure */
    if (sl_writer_close(ids->packets, message, sizeof message))
        sl_fail(box, "ids: the packets that match could not all be written", message);
    if (ids->costs)
        ids_write_costs(box, ids);
    if (ids->alerts && *SLUICE_PARAMETER_OF(box, counts))
        ids_write_counts(box, ids);
    if (ids->log.out)
        log_close(&ids->log, box, "ids rows", "ids rows lost for want of memory", "ids flows without layers");
    tls_secrets_close(&ids->secrets, box);
    sl_report(box, "ids rules", ids->table.rule_count);
    if (ids->counts.replaced)
        sl_report(box, "ids counters of thresholds given up", ids->counts.replaced);
    for (uint32_t i = 0; ids->table.groups && i < ids->table.group_count; i++)
        if (ids->table.groups[i].whole)
            hs_close_stream(ids->table.groups[i].whole, ids->scratch, NULL, NULL);
    hs_free_scratch(ids->scratch);
    pcre2_match_data_free(ids->work.data);
    pcre2_match_context_free(ids->work.context);
    pcre2_jit_stack_free(ids->work.stack);
    free(ids->costs);
    free(ids->alerts);
    free(ids->found);
    free(ids->mark);
    free(ids->counts.at);
    ids_table_free(&ids->table);
}

#endif
