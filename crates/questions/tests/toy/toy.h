/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A cipher that protects nothing: each byte of a block plus that of the key. */
#ifndef KILN_TOY_H
#define KILN_TOY_H

#include <kiln/cipher.h>

#define TOY_BLOCK 16

kiln_crypt_t toy_encrypt_generic, toy_decrypt_generic;
kiln_crypt_t toy_encrypt_aesni, toy_decrypt_aesni;

#endif
