// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Functions that linked objects reference but that are never called here: functions for user
 * memory, the page cache, signals, and devices. If one is called nevertheless, the host process
 * exits with a report that names the function.
 */
#include "service.h"

#define REFUSE(name)                    \
	void SERVICE(name)(void);       \
	void SERVICE(name)(void)        \
	{                               \
		refused(#name);         \
	}

REFUSE(BUG_func)

REFUSE(_copy_from_user)
REFUSE(_copy_to_user)
REFUSE(__get_user_nocheck_4)
REFUSE(__get_user_nocheck_8)
REFUSE(__put_user_8)
REFUSE(__put_user_nocheck_2)
REFUSE(__put_user_nocheck_4)
REFUSE(__put_user_nocheck_8)
REFUSE(copy_mc_to_kernel)
REFUSE(copy_mc_to_user)
REFUSE(copy_to_nontemporal)
REFUSE(copy_to_user_nofault)
REFUSE(copy_user_flushcache)
REFUSE(__memcpy_flushcache)
REFUSE(fault_in_readable)
REFUSE(fault_in_safe_writeable)
REFUSE(get_user_pages_fast)
REFUSE(pin_user_pages_fast)
REFUSE(unpin_user_page)
REFUSE(rep_movs_alternative)
REFUSE(rep_stos_alternative)

/* Functions of the page cache and vmalloc's map. */
REFUSE(__xas_next)
REFUSE(xas_load)
REFUSE(xas_find)
REFUSE(vmalloc_to_page)

/* Functions for the FPU state of user tasks (signals, core dumps, ptrace), and for CR4 and XCR0. */
REFUSE(cr4_update_irqsoff)
REFUSE(dump_align)
REFUSE(dump_emit)
REFUSE(get_sigframe_size)
REFUSE(setup_clear_cpu_cap)
REFUSE(update_regset_xstate_info)

/* Sleepable RCU functions, which only some notifier chains use. */
REFUSE(__srcu_read_lock)
REFUSE(__srcu_read_unlock)
REFUSE(init_srcu_struct)
REFUSE(synchronize_srcu)
REFUSE(call_rcu)
int SERVICE(system_state) = 2;	/* SYSTEM_SCHEDULING: initcalls may sleep */

/* Functions that vsnprintf() references for the formats that print devices and flags. */
REFUSE(fwnode_count_parents)
REFUSE(fwnode_get_name)
REFUSE(fwnode_get_name_prefix)
REFUSE(fwnode_get_nth_parent)
REFUSE(has_capability_noaudit)
REFUSE(time64_to_tm)
void *SERVICE(gfpflag_names)[2], *SERVICE(pageflag_names)[2], *SERVICE(vmaflag_names)[2];

/* Functions for devices, files and user memory that the string helpers reference. */
REFUSE(__devm_add_action)
REFUSE(__devres_alloc_node)
REFUSE(devres_add)
REFUSE(devres_free)
REFUSE(file_path)
REFUSE(get_cmdline)
REFUSE(memdup_user_nul)
REFUSE(sysfs_emit)

/*
 * For 6.1: functions from the lists above under their older names, and functions that its iov_iter,
 * vsprintf and bitmap code references.
 */
REFUSE(PageHeadHuge)
REFUSE(PageHuge)
REFUSE(__copy_user_flushcache)
REFUSE(__copy_user_nocache)
REFUSE(copy_user_enhanced_fast_string)
REFUSE(copy_user_generic_string)
REFUSE(copy_user_generic_unrolled)
REFUSE(csum_and_copy_from_user)
REFUSE(csum_and_copy_to_user)
REFUSE(delayed_work_timer_fn)
REFUSE(devm_add_action)
REFUSE(fwnode_handle_put)
REFUSE(memory_read_from_buffer)
REFUSE(nla_put)
REFUSE(queue_delayed_work_on)
void *SERVICE(default_pipe_buf_ops)[8], *SERVICE(page_cache_pipe_buf_ops)[8];

/* Return thunks that are not replaced at boot call this function. */
REFUSE(warn_thunk_thunk)

/* Functions added in 7.x. */
REFUSE(init_srcu_struct_generic)

/* Functions for text buffers read through a file. */
REFUSE(d_path)
REFUSE(seq_mangle_path)
REFUSE(seq_write)

/* KUnit calls these functions to power off a virtual machine. */
REFUSE(kernel_halt)
REFUSE(kernel_power_off)
REFUSE(kernel_restart)
/* Never called: each task drops the last reference to itself. */
REFUSE(__put_task_struct_rcu_cb)
