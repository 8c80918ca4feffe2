//! The guest's memory: the regions that the front end shares, mapped here.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::vhost_user::message::{VhostUserMemoryRegion, VhostUserSingleMemoryRegion};
use vhost::vhost_user::{Error, Result};
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

use crate::locked;
use crate::shrunk::Watch;

/// Regions of one guest. Linux's own limit of memory slots, less three that it keeps.
pub(crate) const MAX_REGIONS: usize = 509;

struct Region {
    /// In the front end's address space, which ring addresses are given in.
    user: u64,
    mapped: Arc<GuestRegionMmap>,
    /// Stops the rings while it removes regions: a thread must not read a region after its watch has ended.
    _watch: Watch,
}

impl Region {
    fn guest(&self) -> u64 {
        self.mapped.start_addr().0
    }

    fn len(&self) -> u64 {
        self.mapped.len()
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    regions: Vec<Region>,
    map: Arc<GuestMemoryMmap>,
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

fn map(region: &VhostUserMemoryRegion, file: File) -> Result<Region> {
    // Ring addresses are looked up by adding and comparing: no region may wrap.
    for base in [region.user_addr, region.guest_phys_addr, region.mmap_offset] {
        base.checked_add(region.memory_size)
            .ok_or_else(|| invalid("a memory region wraps around"))?;
    }
    let mapping = region.mmap_region(file)?;
    locked::release(mapping.as_ptr(), mapping.size());
    let watch = Watch::new(mapping.as_ptr() as usize, mapping.size())
        .ok_or_else(|| invalid("more memory regions than are watched"))?;
    let mapped = GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr))
        .ok_or_else(|| invalid("a memory region beyond the address space"))?;
    Ok(Region {
        user: region.user_addr,
        mapped: Arc::new(mapped),
        _watch: watch,
    })
}

impl Memory {
    /// What a ring is looked up in. It stays mapped for as long as it is held.
    pub(crate) fn map(&self) -> Arc<GuestMemoryMmap> {
        self.map.clone()
    }

    pub(crate) fn replace(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<()> {
        if regions.len() != files.len() || regions.len() > MAX_REGIONS {
            return Err(invalid(
                "a memory table with a file for each region is expected",
            ));
        }
        let mapped = regions
            .iter()
            .zip(files)
            .map(|(region, file)| map(region, file))
            .collect::<Result<Vec<_>>>()?;
        self.install(mapped)
    }

    pub(crate) fn add(&mut self, region: &VhostUserSingleMemoryRegion, file: File) -> Result<()> {
        if self.regions.len() >= MAX_REGIONS {
            return Err(invalid("more memory regions than are offered"));
        }
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

    /// Takes a region away.
    pub(crate) fn remove(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let at = self
            .regions
            .iter()
            .position(|r| {
                (r.guest(), r.len(), r.user)
                    == (region.guest_phys_addr, region.memory_size, region.user_addr)
            })
            .ok_or_else(|| invalid("no such memory region"))?;
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
            GuestMemoryMmap::from_arc_regions(all).map_err(|e| invalid(e.to_string()))?
        };
        self.map = Arc::new(map);
        self.regions = regions;
        Ok(())
    }

    /// The guest's address for one of the front end's.
    pub(crate) fn guest_address(&self, user: u64) -> Option<u64> {
        self.regions.iter().find_map(|r| {
            let offset = user.checked_sub(r.user)?;
            (offset < r.len()).then(|| r.guest() + offset)
        })
    }
}
