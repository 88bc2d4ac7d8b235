// A plugin of QEMU's user mode (qemu-x86_64 -plugin count.so PROGRAM): says at the end how many instructions PROGRAM has executed. What it
// uses of qemu-plugin.h, version 1 of the interface, is declared here, since Debian has no package of that header.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct qemu_info_t;
struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, enum qemu_plugin_op, void*, uint64_t);
size_t qemu_plugin_tb_n_insns(struct qemu_plugin_tb const*);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*), void*);

int qemu_plugin_version = 1;

static uint64_t instructions;

// A block of instructions is executed whole: each time its number is added.
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &instructions, qemu_plugin_tb_n_insns(block));
}

static void ended(qemu_plugin_id_t id, void* nothing) {
  (void)id, (void)nothing;
  fprintf(stderr, "instructions: %" PRIu64 "\n", instructions);
}

int qemu_plugin_install(qemu_plugin_id_t id, struct qemu_info_t const* info, int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
