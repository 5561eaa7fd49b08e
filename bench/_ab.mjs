import { sqliteStore } from "nevertwice/sqlite"; import { nevertwice } from "nevertwice"; import { handWritten } from "./hand-written.mjs";
import { rmSync, mkdirSync } from "node:fs"; rmSync("/tmp/prof/ab",{recursive:true,force:true}); mkdirSync("/tmp/prof/ab");
const h=handWritten("/tmp/prof/ab/h.db"); const nt=nevertwice({store:sqliteStore({path:"/tmp/prof/ab/l.db"}),sweep:false}); const g=nt.action("bench",{key:["id"],run:async()=>({id:"msg_1"})});
const H=[],O=[]; const N=400;
for(let r=0;r<14;r++){ let t=performance.now(); for(let i=0;i<N;i++) await h.once(`${r}-${i}`,async()=>({id:"msg_1"})); H.push((performance.now()-t)/N*1000);
 t=performance.now(); for(let i=0;i<N;i++) await g({id:`${r}-${i}`}); O.push((performance.now()-t)/N*1000);}
const med=a=>a.slice(2).sort((x,y)=>x-y)[6]; console.log("hand us",med(H).toFixed(0),"ours us",med(O).toFixed(0),"ratio",(med(H)/med(O)).toFixed(2)); await nt.close();
