// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Module parameters, which keep their default values. The parameter types are defined here because
 * the tree refers to them, but the functions of these types are never called.
 */
#include "service.h"

void *SERVICE(param_ops_bool)[8], *SERVICE(param_ops_int)[8], *SERVICE(param_ops_uint)[8];
void *SERVICE(param_ops_ulong)[8], *SERVICE(param_ops_charp)[8];
void *SERVICE(param_ops_string)[8], *SERVICE(param_ops_byte)[8];
