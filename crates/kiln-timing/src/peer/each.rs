//! Calls a library function once per message, and allocates memory for the contexts that libraries
//! use.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;

use zeroize::Zeroize;

use crate::{Messages, Op, Shape, IV_UNIT};

/// Pointers to the parts of one message. The pointer to a part that the algorithm does not use is
/// unspecified.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub iv: *const u8,
    pub aad: *const u8,
    /// The message. If the message is to be opened, its tag follows it.
    pub src: *const u8,
    /// Output buffer. A cipher writes the text, followed by the tag if one is generated; a hash
    /// writes the digest.
    pub dst: *mut u8,
}

impl Call {
    /// Returns the address of the tag to verify when a `len`-byte message is opened.
    ///
    /// # Safety
    /// The message must have a tag.
    #[inline(always)]
    pub(super) unsafe fn tag_to_open(&self, len: usize) -> *const u8 {
        // SAFETY: the caller promises that the message has a tag, which follows the `len` bytes of
        // text.
        unsafe { self.src.add(len) }
    }

    /// Returns the address to which the tag is written when a `len`-byte message is sealed.
    ///
    /// # Safety
    /// The output buffer must have room for the tag.
    #[inline(always)]
    pub(super) unsafe fn tag_made(&self, len: usize) -> *mut u8 {
        // SAFETY: the caller promises room for the tag, which follows the `len` bytes of text.
        unsafe { self.dst.add(len) }
    }
}

/// Makes `calls` calls of `f`, each for the next message, and stops with an error if `f` returns
/// false. All pointers passed to `f` are valid for the sizes given by the messages' shape.
#[inline(always)]
pub(super) fn call_each(
    messages: &mut Messages,
    calls: u64,
    mut f: impl FnMut(Call) -> bool,
) -> Result<(), String> {
    let (shape, count, chained) = (messages.shape, messages.count(), messages.chained);
    let (src_stride, dst_stride) = (messages.src_stride, messages.dst_stride);
    let iv_stride = messages.iv_units() * IV_UNIT;
    let (ivs, src, dst) = messages.parts();
    assert!((count - 1) * src_stride + shape.src() <= src.len());
    assert!((count - 1) * dst_stride + shape.dst() <= dst.len());
    assert!(count * iv_stride <= ivs.as_flattened().len());
    let ivs = ivs.as_flattened().as_ptr();
    let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
    let text = if shape.unsaid() > 0 { shape.prefix } else { 0 };
    let mut i = 0;
    let mut last = None;
    for _ in 0..calls {
        // SAFETY: `i` is less than `count`, so the assertions above guarantee that all addresses
        // are within the buffers. A result that serves as the next IV is long enough, because
        // messages are chained only if their results are at least as long as an IV.
        let call = unsafe {
            let from = src.add(i * src_stride);
            let to = dst.add(i * dst_stride).add(text);
            Call {
                iv: match last {
                    Some(result) if chained => result,
                    _ => ivs.add(i * iv_stride),
                },
                aad: from,
                src: from.add(shape.prefix),
                dst: to,
            }
        };
        if !f(call) {
            return Err(match shape.op {
                Op::Decrypt if shape.tag > 0 => "refuses a right tag, or fails".to_string(),
                _ => "fails".to_string(),
            });
        }
        last = Some(call.dst.cast_const());
        i = if i + 1 == count { 0 } else { i + 1 };
    }
    Ok(())
}

/// Returns whether the `len` bytes at `tag` and at `right` are equal. The run time does not depend
/// on where they differ.
///
/// # Safety
/// Both tags must be readable for `len` bytes.
#[inline(always)]
pub(super) unsafe fn same_tag(tag: *const u8, right: *const u8, len: usize) -> bool {
    // SAFETY: the caller promises that both tags are readable for `len` bytes.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(tag, len),
            std::slice::from_raw_parts(right, len),
        )
    };
    a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

/// Returns the length of the nonce in the IV of a CCM message. The IV has the format of the first
/// block in RFC 3610, and the nonce begins at the second byte of the IV.
pub(super) fn ccm_nonce(shape: &Shape) -> usize {
    // Subtract the flags byte and the length field, which is four bytes long in all messages that
    // `speed` measures.
    shape.iv.saturating_sub(1 + 4)
}

/// Zeroed memory for a library's opaque context. The memory is aligned to a cache line and wiped
/// when dropped.
pub(super) struct Memory {
    at: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    /// Allocates `bytes` bytes of zeroed memory.
    pub(super) fn new(bytes: usize) -> Memory {
        let layout = Layout::from_size_align(bytes.max(1), 64).expect("a size");
        // SAFETY: the layout's size is at least 1.
        let Some(at) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        Memory { at, layout }
    }

    pub(super) fn at<T>(&self) -> *mut T {
        self.at.as_ptr().cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and nothing uses it after the drop.
        unsafe {
            std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()).zeroize();
            dealloc(self.at.as_ptr(), self.layout);
        }
    }
}
