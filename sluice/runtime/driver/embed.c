/* Access to the counters and sent packets of a box, for programs to which struct sl_box is opaque. */
#include "driver/embed.h"

#include "function/output.h"
#include "function/secrets.h"
#include "native/contexts.h"

const uint64_t *sl_box_counters(const struct sl_box *box) { return box->counters; }

const char *sl_box_function_failure(const struct sl_box *box) { return box->output.failure; }

void sl_box_overloaded(struct sl_box *box, bool is_so)
{
    box->output.off = box->output.failed | (is_so ? box->output.overload_open : 0);
}

const uint64_t *sl_box_function_counters(const struct sl_box *box, uint32_t function)
{
    return function < box->function_count ? box->function_counters[function] : NULL;
}

void sl_box_coming(struct sl_box *box, uint32_t packets) { box->lookahead.coming = packets; }

void sl_box_secrets(struct sl_box *box, uint32_t kind, sl_bytes secrets)
{
    for (struct sl_natives *natives = box->natives; natives; natives = natives->next)
        if (natives->module->secrets)
            natives->module->secrets(natives->worker, kind, secrets);
    for (struct sl_secrets_taker *taker = box->secrets_takers; taker; taker = taker->next)
        taker->take(taker->user, kind, secrets);
}

const char *sl_box_failure(const struct sl_box *box) { return box->failure; }

uint32_t sl_box_reports(const struct sl_box *box, struct sl_report *reports, uint32_t most)
{
    memcpy(reports, box->reports, sl_min(most, box->report_count) * sizeof *reports);
    return box->report_count;
}

uint32_t sl_box_refused(const struct sl_box *box, struct sl_refused *refused, uint32_t most)
{
    memcpy(refused, box->refused, sl_min(most, box->refused_count) * sizeof *refused);
    return box->refused_count;
}

uint32_t sl_box_sent(struct sl_box *box, const struct sl_sent **sent)
{
    struct sl_output *output = &box->output;
    *sent = output->sent;
    if (output->taken)
        return 0;
    for (uint32_t i = 0; i < output->sent_count; i++) {
        struct sl_frame *frame = &output->sent[i].frame;
        frame->at = output->sent_bytes + (uintptr_t)frame->at;
        if (!frame->link_type)   /* sent before the first packet */
            frame->link_type = output->link_type;
    }
    output->taken = true;
    return output->sent_count;
}

bool sl_box_drop(struct sl_box *box, uint64_t number) { return box->frame && box->number == number && sl_drop_by(box, 0); }

bool sl_box_reset(struct sl_box *box, uint64_t number) { return box->frame && box->number == number && sl_reset_by(box, 0); }
