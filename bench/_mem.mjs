import { nevertwice } from "nevertwice";
const nt=nevertwice({store:"memory:",sweep:false}); const g=nt.action("bench",{key:["id"],run:async()=>({id:"msg_1"})});
let i=0; const go=async(C,N)=>{const c0=process.cpuUsage();const t=performance.now();let k=0;await Promise.all(Array.from({length:C},async()=>{while(k<N){k++;await g({id:"k"+i++})}}));const c=process.cpuUsage(c0);console.log(C,"callers: wall us",((performance.now()-t)/N*1000).toFixed(1),"cpu us",((c.user+c.system)/N).toFixed(1))};
await go(1,20000);await go(1,20000);await go(256,40000);await go(256,40000);
