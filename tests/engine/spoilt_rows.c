/* Rows of two workers, of which the first crashed: it has written part of a row, and anything as the number of its bytes.
 *
 * spoilt_rows OUTPUT BYTES */
#include "driver/group.c"

int main(int count, char **word) {
    if (count != 3)
        return 2;
    char message[200];
    struct sl_group *group = sl_group_open(2, true);
    struct sl_box *box[2];
    sl_group_isolate(group);
    for (uint32_t worker = 0; worker < 2; worker++) {
        box[worker] = calloc(1, sizeof *box[worker]);
        box[worker]->worker = worker;
        FILE *rows = sl_group_rows(group, box[worker], word[1]);
        for (uint32_t n = 0; n < 3; n++) {
            box[worker]->number = 2 * n + worker + 1;
            fprintf(rows, "%u\n", 2 * n + worker + 1);
            fflush(rows);
        }
        fclose(rows);
    }
    struct stored torn = {8, 1000};
    fwrite(&torn, sizeof torn, 1, group->rows->spool);
    fflush(group->rows->spool);
    uint64_t whole = group->rows->complete->bytes;
    group->rows->complete->bytes = *word[2] ? strtoull(word[2], NULL, 10) : whole;
    sl_group_recover(group, 0);
    int result = sl_group_write(group, message, sizeof message);
    if (result || group->rows->complete->bytes != whole)
        fprintf(stderr, "%s\n", result ? message : "the number of bytes is wrong");
    sl_group_close(group);
    free(box[0]);
    free(box[1]);
    return result ? 1 : 0;
}
