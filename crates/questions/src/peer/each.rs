//! The loop of a peer's calls, and memory for its contexts.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;

use zeroize::Zeroize;

use crate::timing::{Messages, Op, Shape, IV_UNIT};

/// Where the parts of one message are. What the algorithm does not have points nowhere in particular.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// The IV.
    pub iv: *const u8,
    /// Associated data.
    pub aad: *const u8,
    /// The message; when opening, its tag is behind it.
    pub src: *const u8,
    /// Where the text goes, with the tag that is made behind it; of a hash, where the digest goes.
    pub dst: *mut u8,
}

impl Call {
    /// The tag of a message of `len` bytes that is to be opened.
    ///
    /// # Safety
    /// The message has one.
    #[inline(always)]
    pub(super) unsafe fn tag_to_open(&self, len: usize) -> *const u8 {
        // SAFETY: it lies behind the text.
        unsafe { self.src.add(len) }
    }

    /// Where the tag of a message of `len` bytes goes that is sealed.
    ///
    /// # Safety
    /// There is room for one.
    #[inline(always)]
    pub(super) unsafe fn tag_made(&self, len: usize) -> *mut u8 {
        // SAFETY: it lies behind the text.
        unsafe { self.dst.add(len) }
    }
}

/// Calls `f` for each message in turn, `calls` times, and stops with a fault when it returns false. All pointers are
/// valid for what the messages' shape says.
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
        // SAFETY: all within the buffers, i being less than `count`: asserted above. A result as an IV has the bytes
        // of one: shapes that do not are not chained.
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

/// Whether the tag at `tag` is the one at `right`, in a time that does not tell where they differ.
///
/// # Safety
/// Both are readable for `len` bytes.
#[inline(always)]
pub(super) unsafe fn same_tag(tag: *const u8, right: *const u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(tag, len),
            std::slice::from_raw_parts(right, len),
        )
    };
    a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

/// The IV of a CCM message as RFC 3610's first block gives it: how long the nonce is. It begins at the second byte.
pub(super) fn ccm_nonce(shape: &Shape) -> usize {
    // What `speed` measures: a length of four bytes.
    shape.iv.saturating_sub(1 + 4)
}

/// Zeroed memory for a context that only its library knows, aligned to a cache line; wiped when dropped.
pub(super) struct Memory {
    at: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    /// So many bytes.
    pub(super) fn new(bytes: usize) -> Memory {
        let layout = Layout::from_size_align(bytes.max(1), 64).expect("a size");
        // SAFETY: the size is not zero.
        let Some(at) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        Memory { at, layout }
    }

    /// Its address.
    pub(super) fn at<T>(&self) -> *mut T {
        self.at.as_ptr().cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody uses it any more.
        unsafe {
            std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()).zeroize();
            dealloc(self.at.as_ptr(), self.layout);
        }
    }
}
