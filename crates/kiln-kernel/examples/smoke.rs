use kiln_kernel::cpu::*; use kiln_kernel::fpu::*; use kiln_kernel::irq::*; use kiln_kernel::load::*; use kiln_kernel::xts::*;
use std::time::*;
fn main(){
  let mut seed=1u64; let mut rnd=|b:&mut [u8]| for x in b { seed^=seed<<13; seed^=seed>>7; seed^=seed<<17; *x=seed as u8; };
  let mut cpu=Cpu::boot(&Config::default()).unwrap();
  println!("state {} B", state_size());
  let rd=||unsafe{core::arch::x86_64::_rdtsc()};
  for p in Policy::all(){ p.set(&mut cpu); let mut r=[0f64;2]; for on in 0..2 { let mut best=1e18f64; for _ in 0..300 { let a=rd(); pairs(2000,on==1); let b=rd(); best=best.min((b-a) as f64/2000.0);} r[on]=best*4.29/2.596; } println!("{p:12} pair {:.1} cycles, with clock {:.1}", r[0],r[1]); }
  for p in Policy::all(){ p.set(&mut cpu); print!("{p:12}"); for s in [false,true]{ for c in Context::ALL { let a=usable(&mut cpu,c,s); print!(" {}{}{}", if a.usable {"y"} else {"n"}, if a.warnings>0 {"w"} else {""}, if s && !a.over_section {"!"} else {""}); } print!(" |"); } println!(); }
  let judge=Impl::find("xts-aes-fixed-time").unwrap(); let best=Impl::best();
  let key:Vec<u8>=(0..64).map(|i| i*7+3).collect(); let key2:Vec<u8>=(0..64).map(|i| i*5+1).collect();
  let soft=Messages::new(judge,&key2,Op::Encrypt,512,16,&mut rnd).unwrap();
  // clock cost
  Policy::all()[0].set(&mut cpu);
  for len in [16usize,512,4096]{ let k=Key::new(&key).unwrap(); let src=vec![1u8;len*32+4096]; let mut dst=src.clone(); let ivs=vec![[3u8;16];32]; let mut se=Series::new(&k,Op::Encrypt,&src,&mut dst,&ivs,len,len.max(64),false).unwrap();
    let mut b=[1e18f64;2]; for r in 0..2000 { let i=r%2; se=se.sections(if i==1 {Sections::Each} else {Sections::EachUntimed}); let n=100; let a=rd(); best.run(&mut se,n).unwrap(); let e=rd(); b[i]=b[i].min((e-a) as f64/n as f64*4.29/2.596);} println!("len {len}: without clock {:.1} with {:.1} = {:.2} %",b[0],b[1],(b[1]/b[0]-1.0)*100.0);}
  // two tasks, full preemption
  for full in [false,true] { for p in Policy::all(){ p.set(&mut cpu); cpu.configure(&Config{preempt_full:full,slice_us:100,tick_us:50,switch_ns:0,..Config::default()}); cpu.reset_stats();
    let task=Messages::new(judge,&key,Op::Encrypt,4096,16,&mut rnd).unwrap();
    let mut load=Load::attach(&mut cpu,Plan{task:TaskWork::Crypt(best,task.clone()),softirq:(best,soft.clone()),fallback:judge,second:Some((best,task)),hardirq_fpu:true}).unwrap();
    let t=Timer::start(load.cpu(),Arrivals::Poisson(33000.0,9)).unwrap(); let t0=Instant::now(); while t0.elapsed()<Duration::from_millis(300){ load.run(100);} drop(t);
    println!("two full={full} {p}: {:?}\n  {:?}", load.counts(), load.cpu().stats()); } }
  cpu.configure(&Config::default());
  // step
  let task=Messages::new(judge,&key,Op::Encrypt,512,4,&mut rnd).unwrap();
  for p in Policy::all(){ p.set(&mut cpu); cpu.reset_stats();
    let mut load=Load::attach(&mut cpu,Plan{task:TaskWork::Crypt(best,task.clone()),softirq:(best,soft.clone()),fallback:judge,second:None,hardirq_fpu:false}).unwrap();
    let mut st=Stepping::start(load.cpu(),Step::Trace).unwrap(); load.set_stepping(true,false); load.run(4); let n=st.instructions(); let addrs=st.addresses(4);
    let t0=Instant::now(); st.restart(Step::Every); load.run(1); let e=t0.elapsed(); println!("{p}: trace {n:?} unique {} ; every: {:?} injected {:?} in {:?}", addrs.len(), st.instructions(), st.injected(), e);
    drop(st); load.set_stepping(false,false); println!("   {:?}", load.counts());
    let mut bp=Breakpoints::start(load.cpu(),&addrs,7).unwrap(); let t0=Instant::now(); while t0.elapsed()<Duration::from_millis(300){ load.run(20); bp.redraw();} let h=bp.hits(); println!("   breakpoints {h} in {:?} = {:.0}/s", t0.elapsed(), h as f64/t0.elapsed().as_secs_f64()); drop(bp);
    println!("   {:?}\n   {:?}", load.counts(), load.cpu().stats());
  }
}
