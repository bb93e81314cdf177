/* The programs: each ends an interval of its CPU's time, and sets the owner of the next one. */
#include "charge.h"

char LICENSE[] SEC("license") = "GPL";

/* The CPU's state, or NULL where there is nothing to do. All that is charged is charged between enter() and leave(). */
static __always_inline struct cpu *enter(void)
{
    struct cpu *cpu = this_cpu();
    if (!cpu || !cpu->since || cpu->busy)
        return NULL;
    cpu->busy = 1;
    barrier();
    return cpu;
}

/* The same within a section only. A system call's packets have the same tracepoints: there `busy` must not be set, as a
 * softirq may occur in between, and would not be accounted.
 */
static __always_inline struct cpu *enter_section(void)
{
    struct cpu *cpu = this_cpu();
    return cpu && cpu->section != NO_SECTION ? enter() : NULL;
}

static __always_inline void leave(struct cpu *cpu)
{
    barrier();
    cpu->busy = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
    struct cpu *cpu = enter();
    if (!cpu)
        return 0;
    advance(cpu);
    if (cpu->section) {
        __sync_fetch_and_add(&control.unfinished, 1);
        cpu->section = NO_SECTION;
    }
    if (preempt || is_runnable(previous)) {
        struct account *account = account_of(cpu->runner);
        if (account)
            account->preempted++;
    }
    cpu->runner = slot_of_task(next);
    leave(cpu);
    return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
    struct cpu *cpu = enter();
    if (!cpu)
        return 0;
    advance(cpu);
    /* A task that another one moved to a cgroup while it ran is noticed at the next tick. */
    if (vector == VECTOR_TIMER)
        cpu->runner = slot_of_task(bpf_get_current_task_btf());
    if (cpu->section)
        __sync_fetch_and_add(&control.unfinished, 1);
    open_section(cpu, vector + 1);
    /* Receive packet steering: a system call that sends to a link raises NET_RX here for the interrupt of another CPU,
     * where the packet is processed. It is the sender's work, though no packet is seen.
     */
    if (is_network(vector + 1)) {
        cpu->last_owner = cpu->raiser;
        cpu->raiser = SLOT_HOST;
    }
    leave(cpu);
    return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
    struct cpu *cpu = enter();
    if (!cpu)
        return 0;
    if (cpu->section == vector + 1) {
        advance_section(cpu);
        settle(cpu, false);
    } else {
        advance(cpu);
    }
    cpu->section = NO_SECTION;
    leave(cpu);
    return 0;
}

/* A thread of a device's NAPI polls outside softirqs: its section begins with its first packet. */
static __always_inline struct cpu *enter_receive_section(void)
{
    struct cpu *cpu = this_cpu();
    if (!cpu)
        return NULL;
    if (cpu->section == VECTOR_NET_RX + 1 || cpu->section == SECTION_NAPI_THREAD)
        return enter();
    if (cpu->section != NO_SECTION || !(bpf_get_current_task_btf()->flags & PF_KTHREAD))
        return NULL;
    cpu = enter();
    if (cpu) {
        advance(cpu);
        open_section(cpu, SECTION_NAPI_THREAD);
    }
    return cpu;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_receive, struct sk_buff *skb)
{
    struct cpu *cpu = enter_receive_section();
    if (!cpu)
        return 0;
    advance_section(cpu);
    add_packet(cpu, owner_of_received(skb))->received++;
    cpu->current = cpu->found;
    leave(cpu);
    return 0;
}

/* Attached only where containers share a network namespace, or use the host's: there the socket decides. */
SEC("cgroup_skb/ingress")
int on_socket(struct __sk_buff *skb)
{
    enum { PASS = 1 };
    struct cpu *cpu = enter_section();
    if (!cpu)
        return PASS;
    if (cpu->section == VECTOR_NET_RX + 1 || cpu->section == SECTION_NAPI_THREAD) {
        __u32 owner = slot_of_receiver(skb);
        if (owner != SLOT_HOST)
            reassign(cpu, owner);
    }
    leave(cpu);
    return PASS;
}

/* Runs after a poll. */
SEC("tp_btf/napi_poll")
int BPF_PROG(on_poll, struct napi_struct *napi, int work, int budget)
{
    struct cpu *cpu = enter_section();
    if (!cpu)
        return 0;
    if (cpu->section == VECTOR_NET_RX + 1 || cpu->section == SECTION_NAPI_THREAD) {
        advance_section(cpu);
        settle(cpu, napi->dev != NULL);
        if (cpu->section == SECTION_NAPI_THREAD)
            cpu->section = NO_SECTION;
    }
    leave(cpu);
    return 0;
}

/* Packets that a softirq transmits share its time: they are dequeued and sent in batches. */
SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(on_dequeue, struct Qdisc *qdisc, const struct netdev_queue *queue, int packets, struct sk_buff *skb)
{
    struct cpu *cpu = enter_section();
    if (!cpu)
        return 0;
    if (cpu->section == VECTOR_NET_TX + 1) {
        for (int i = 0; i < BATCH && skb; i++) {
            add_packet(cpu, owner_of_sent(skb))->transmitted++;
            skb = skb->next;
        }
    }
    leave(cpu);
    return 0;
}

/* TCP transmits from timers, and from a tasklet after a completion (TCP small queues). */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_queue, struct sk_buff *skb)
{
    struct cpu *cpu = enter_section();
    if (!cpu)
        return 0;
    __u32 section = cpu->section;
    if (section == VECTOR_TIMER + 1 || section == VECTOR_TASKLET + 1 || section == VECTOR_HRTIMER + 1)
        add_packet(cpu, owner_of_sent(skb))->transmitted++;
    leave(cpu);
    return 0;
}

/* A completed transmission, which a driver frees before it receives, or for which it raises NET_TX. */
SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume, struct sk_buff *skb)
{
    struct cpu *cpu = enter_section();
    if (!cpu)
        return 0;
    if (cpu->section == VECTOR_NET_TX + 1) {
        add_packet(cpu, owner_of_sent(skb));
    } else if (cpu->section == VECTOR_NET_RX + 1 && cpu->current == NO_PARTY) {
        advance_section(cpu);
        add_packet(cpu, owner_of_sent(skb));
        cpu->current = cpu->found;
    }
    leave(cpu);
    return 0;
}

/* Interrupts. The entry and exit of a handler are probed; the processor's and a hypervisor's times before and after are
 * not, and are charged as a constant. An interrupt is the network's if it raises a network softirq.
 */
static __always_inline int interrupt_entry(void)
{
    struct cpu *cpu = this_cpu();
    if (cpu && cpu->since) {
        cpu->raised = 0;
        cpu->interrupt_since = bpf_ktime_get_ns();
    }
    return 0;
}

static __always_inline int interrupt_exit(void)
{
    struct cpu *cpu = this_cpu();
    if (!cpu || !cpu->interrupt_since)
        return 0;
    __u64 ns = bpf_ktime_get_ns() - cpu->interrupt_since;
    cpu->interrupt_since = 0;
    struct account *host = account_of(SLOT_HOST);
    if (host) {
        host->interrupts++;
        host->measured_ns += ns;
    }
    /* Within a section its time is the section's already. */
    if (!cpu->raised || cpu->section)
        return 0;
    cpu->interrupted = cpu->runner;
    cpu->interrupts_total += ns;
    if (cpu->runner != SLOT_IDLE)
        cpu->interrupts_total += control.interrupt_ns;
    return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(on_raise, unsigned int vector)
{
    struct cpu *cpu = this_cpu();
    if (!cpu || (vector != VECTOR_NET_RX && vector != VECTOR_NET_TX))
        return 0;
    if (cpu->interrupt_since)
        cpu->raised = 1;
    else if (cpu->section == NO_SECTION && cpu->runner != SLOT_IDLE)
        cpu->raiser = cpu->runner;
    return 0;
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(on_call_entry)
{
    return interrupt_entry();
}

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(on_call_exit)
{
    return interrupt_exit();
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry)
{
    return interrupt_entry();
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit)
{
    return interrupt_exit();
}

/* A shaper's timer raises NET_TX. */
SEC("tp_btf/local_timer_entry")
int BPF_PROG(on_timer_entry)
{
    return interrupt_entry();
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(on_timer_exit)
{
    return interrupt_exit();
}

/* The loader runs this on each CPU before it reads: the time until then is charged. A CPU that runs one task for
 * long, or is idle, has no event that would do so. It also runs after the table of cgroups has changed: a task that is
 * never switched out is in its new container from then on. Returns 1 if it interrupted another program.
 */
SEC("raw_tp")
int snapshot(void *context)
{
    struct cpu *cpu = this_cpu();
    if (!cpu || cpu->busy)
        return 1;
    cpu->busy = 1;
    barrier();
    if (!cpu->since) {
        open_section(cpu, NO_SECTION);
        cpu->since = bpf_ktime_get_ns();
        cpu->runner = slot_of_task(bpf_get_current_task_btf());
    } else if (cpu->section) {
        advance_section(cpu);
    } else {
        advance(cpu);
        cpu->runner = slot_of_task(bpf_get_current_task_btf());
    }
    leave(cpu);
    return 0;
}
