//! The guest's memory, mapped from the regions that the front end shares.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{fcntl_get_seals, fstat, fstatfs, FileType};
use rustix::mm::munlock;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap, MmapRegion,
};

use crate::vhost_user::{self, Error};

/// Maximum number of regions per guest: Linux's limit on memory slots minus three reserved slots.
pub(crate) const MAX_REGIONS: usize = 509;

type Result<T> = std::result::Result<T, Error>;

struct Region {
    /// Address of the region in the front end's address space. Front ends specify ring addresses in
    /// that address space.
    user: u64,
    mapped: Arc<GuestRegionMmap>,
}

impl Region {
    fn guest(&self) -> u64 {
        self.mapped.start_addr().0
    }

    fn len(&self) -> u64 {
        self.mapped.len()
    }
}

pub(crate) struct Memory {
    regions: Vec<Region>,
    map: Arc<GuestMemoryMmap>,
    /// Maximum total size of the regions in bytes.
    most: u64,
}

/// `f_type` of hugetlbfs.
const HUGETLBFS: i64 = 0x9584_58f6;

/// Checks a file before it is mapped as guest memory.
///
/// Only memfd, tmpfs and hugetlbfs files have seals, and querying seals does not call into the file
/// system. Any other file may be on FUSE, where a server decides how long a page fault takes.
pub(crate) fn check(file: &File, offset: u64, size: u64) -> io::Result<()> {
    let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if fcntl_get_seals(file).is_err() {
        return refuse("guest memory that is not a memfd or a file on tmpfs or hugetlbfs".into());
    }
    let (stat, fs) = (fstat(file)?, fstatfs(file)?);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return refuse("guest memory that is not a file".into());
    }
    // Accessing memory beyond the end of the file would raise SIGBUS, so the file must contain the
    // whole region.
    let has = u64::try_from(stat.st_size).unwrap_or(0);
    if offset.checked_add(size).is_none_or(|end| end > has) {
        return refuse(format!(
            "a memory region of {size} bytes, but the file has only {} after its offset",
            has.saturating_sub(offset)
        ));
    }
    let page = u64::try_from(fs.f_bsize).unwrap_or(1).max(1);
    if fs.f_type == HUGETLBFS && (offset % page != 0 || size % page != 0) {
        return refuse(format!(
            "the offset or the size ({size} bytes) of a memory region is not a multiple of the huge \
             page size {page}"
        ));
    }
    Ok(())
}

fn map(region: &vhost_user::Region, file: File) -> Result<Region> {
    // Ring addresses are translated by adding offsets and comparing, so a region must not wrap
    // around.
    for base in [region.user, region.guest, region.offset] {
        base.checked_add(region.size)
            .ok_or_else(|| Error::refused("a memory region wraps around"))?;
    }
    check(&file, region.offset, region.size).map_err(Error::refused)?;
    let size = usize::try_from(region.size).map_err(Error::refused)?;
    let mapping = MmapRegion::from_file(FileOffset::new(file, region.offset), size)
        .map_err(Error::refused)?;
    // Unlock guest memory: the front end decides whether it may be swapped out, and locked guest
    // memory would count towards this process's limit.
    // SAFETY: the range is exactly the mapping, and munlock() does not change its contents.
    let _ = unsafe { munlock(mapping.as_ptr().cast(), mapping.size()) };
    let mapped = GuestRegionMmap::new(mapping, GuestAddress(region.guest))
        .ok_or_else(|| Error::refused("a memory region extends beyond the address space"))?;
    Ok(Region {
        user: region.user,
        mapped: Arc::new(mapped),
    })
}

impl Memory {
    /// Creates an empty guest memory that may grow to `most` bytes in total.
    pub(crate) fn new(most: u64) -> Memory {
        Memory {
            regions: Vec::new(),
            map: Arc::default(),
            most,
        }
    }

    /// Returns the number of regions, and their total size in bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        let bytes = self.regions.iter().map(Region::len).sum();
        (self.regions.len() as u64, bytes)
    }

    /// Checks that regions of these sizes, together with the `held` bytes of existing regions, do
    /// not exceed the limit.
    fn check_total(&self, held: u64, sizes: impl Iterator<Item = u64>) -> Result<()> {
        let total = sizes.fold(held, u64::saturating_add);
        match total > self.most {
            true => Err(Error::refused(format!(
                "{total} bytes of guest memory, more than --max-memory allows"
            ))),
            false => Ok(()),
        }
    }

    /// Returns a snapshot of the mapped regions. They stay mapped until the caller drops the
    /// snapshot.
    pub(crate) fn map(&self) -> Arc<GuestMemoryMmap> {
        self.map.clone()
    }

    pub(crate) fn replace(&mut self, regions: Vec<(vhost_user::Region, File)>) -> Result<()> {
        self.check_total(0, regions.iter().map(|(region, _)| region.size))?;
        let mapped = regions
            .into_iter()
            .map(|(region, file)| map(&region, file))
            .collect::<Result<Vec<_>>>()?;
        self.install(mapped)
    }

    pub(crate) fn add(&mut self, region: &vhost_user::Region, file: File) -> Result<()> {
        if self.regions.len() >= MAX_REGIONS {
            return Err(Error::refused(
                "the front end added more memory regions than the device accepts",
            ));
        }
        self.check_total(self.size().1, std::iter::once(region.size))?;
        let mut regions = std::mem::take(&mut self.regions);
        match map(region, file) {
            Ok(region) => regions.push(region),
            Err(e) => {
                self.regions = regions;
                return Err(e);
            }
        }
        self.install(regions)
    }

    pub(crate) fn remove(&mut self, region: &vhost_user::Region) -> Result<()> {
        let at = self
            .regions
            .iter()
            .position(|r| (r.guest(), r.len(), r.user) == (region.guest, region.size, region.user))
            .ok_or_else(|| Error::refused("no such memory region"))?;
        let mut regions = std::mem::take(&mut self.regions);
        regions.remove(at);
        self.install(regions)
    }

    fn install(&mut self, mut regions: Vec<Region>) -> Result<()> {
        regions.sort_by_key(Region::guest);
        let map = if regions.is_empty() {
            GuestMemoryMmap::default()
        } else {
            let all = regions.iter().map(|r| r.mapped.clone()).collect();
            GuestMemoryMmap::from_arc_regions(all).map_err(Error::refused)?
        };
        self.map = Arc::new(map);
        self.regions = regions;
        Ok(())
    }

    /// Translates an address in the front end's address space to a guest address.
    pub(crate) fn guest_address(&self, user: u64) -> Option<u64> {
        self.regions.iter().find_map(|r| {
            let offset = user.checked_sub(r.user)?;
            (offset < r.len()).then(|| r.guest() + offset)
        })
    }
}
